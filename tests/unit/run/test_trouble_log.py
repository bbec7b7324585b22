"""The file of tracebacks lies in the pipeline's state, and has what stopped one thing."""

from pathlib import Path

from cdc.core.containment import LOG, contain_errors
from cdc.run.trouble_log import trouble_log


def stop_one(what: str) -> None:
    with contain_errors(what, lambda _: None):
        raise ValueError("what nobody has thought of")


def test_a_traceback_goes_to_the_pipeline_s_file_once_while_a_job_runs(tmp_path: Path) -> None:
    before = [*LOG.handlers]
    with trouble_log(tmp_path) as path:
        with trouble_log(tmp_path) as again:
            assert again == path == tmp_path / "logs" / "trouble.log"
        stop_one("view a.b")
        with trouble_log(tmp_path / "other") as other:
            stop_one("view a.c")
    assert before == LOG.handlers
    stop_one("view a.d")
    told = path.read_text()
    assert told.count("Traceback (most recent call last)") == 2
    assert "view a.b: what nobody has thought of" in told
    assert "view a.b" not in other.read_text()
    assert "view a.d" not in told

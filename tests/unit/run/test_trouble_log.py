"""The file of tracebacks lies in the pipeline's state, and has what stopped one thing."""

from pathlib import Path

from cdc.core.containment import LOG, contain_errors
from cdc.run.trouble_log import open_trouble_log


def test_a_traceback_goes_to_the_pipeline_s_file_once(tmp_path: Path) -> None:
    before = [*LOG.handlers]
    path = open_trouble_log(tmp_path)
    assert open_trouble_log(tmp_path) == path
    try:
        with contain_errors("view a.b", lambda _: None):
            raise ValueError("what nobody has thought of")
    finally:
        for handler in {*LOG.handlers} - {*before}:
            LOG.removeHandler(handler)
            handler.close()
    told = path.read_text()
    assert path == tmp_path / "logs" / "trouble.log"
    assert told.count("Traceback (most recent call last)") == 1
    assert "view a.b: what nobody has thought of" in told

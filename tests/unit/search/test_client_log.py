"""What the clients of a cluster log beside our own lines."""

import logging

import pytest

import cdc.sinks.opensearch.client  # noqa: F401 - it quiets the client
from cdc.run.spark.session import _silence_py4j


@pytest.mark.parametrize("name", ["opensearch", "stamina"])
def test_what_is_tried_again_leaves_no_traceback_on_stderr_once_spark_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that is away for a minute filled the log of `cdc follow` with four thousand lines."""
    # as a verb begins with it
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    _silence_py4j()
    logging.getLogger("of others").warning("is seen")
    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError:
        logging.getLogger(name).warning("POST /_bulk [status:N/A]", exc_info=True)
    assert capsys.readouterr().err == "is seen\n"

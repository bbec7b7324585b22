"""The lines of `cdc follow`: with time and level, as text or as JSON, and nothing else where a program reads them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cdc.cli import output
from cdc.cli.log_lines import LogFormat, begin_log, end_log
from cdc.config.init import TemplateValues, template
from cdc.core.text.lines import ErrorLine, WarningLine


def test_lines_have_time_and_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin_log(LogFormat.TEXT, tmp_path)
    output.say("lake: 1 change, at 0/1")
    output.say(WarningLine("capture: stands still"))
    output.say(ErrorLine("lake stopped: 100 % is gone"))
    end_log()
    output.say("as other verbs")
    kept = (tmp_path / "follow.log").read_text().splitlines()
    *logged, last = capsys.readouterr().err.splitlines()
    assert last == "as other verbs"
    assert kept == logged
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert [re.sub(f"^{time} ", "", line) for line in logged] == [
        "INFO    lake: 1 change, at 0/1",
        "WARNING capture: stands still",
        "ERROR   lake stopped: 100 % is gone",
    ]
    assert all(re.match(time, line) for line in logged)


def test_as_json_nothing_else_comes(tmp_path: Path) -> None:
    """A follow that is refused, beside something that writes to stderr as Java does."""
    config = tmp_path / "cdc.yaml"
    config.write_text(template(TemplateValues(password="${env:PW}")))
    words = ["--config", str(config), "follow", "--log-format", "json"]
    code = (
        "import os, sys; from cdc.cli.verbs import pipeline; from cdc.__main__ import main\n"
        "begin = pipeline.begin_log\n"
        "pipeline.begin_log = lambda *of: (begin(*of), os.write(2, b'NOTE: of Java\\n'))\n"
        f"sys.exit(main({words!r}))"
    )
    # with these options, the Java that starts beside has words of its own
    others = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    environ = {**others, "PW": "p"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode > 1
    assert lines[-1]["level"] == "error"
    assert set(lines[-1]) == {"at", "level", "message", "code"}
    assert (tmp_path / ".cdc" / "logs" / "follow.stderr").read_text() == "NOTE: of Java\n"

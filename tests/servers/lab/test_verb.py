"""`cdc lab NAME` as a user runs it: parts that are down come up, and the output has its three forms."""

import json
import os
import signal
import subprocess
import sys
from itertools import takewhile

import pytest

from cdc.__main__ import main
from cdc.lab.temporary import open_admin
from cdc.local.services import endpoints
from cdc.local.state_dir import Home
from tests.support.cdc_subprocess import LIMIT_SECONDS, ROOT


def test_a_lab_starts_the_parts_prints_what_it_found_and_removes_what_it_made(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    config, figure = str(home.path.parent / "cdc.yaml"), home.path.parent / "direct.svg"
    assert main(["-c", config, "lab", "direct", "--svg", str(figure)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split()[:3] == ["way", "sent", "received"]
    assert "book  first edition, chapter 11, Stream Processing: Messaging Systems" in said.out
    assert "code  cdc/log/names.py" in said.out
    assert figure.read_text().startswith("<?xml")
    assert main(["-c", config, "lab", "direct", "--json", "--seed", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lab"], found["seed"], len(found["rows"])) == ("direct", 5, 4)
    assert found["rows"][0]["way"] == "UDP"

    interrupt(config)
    with open_admin(endpoints(home).kafka_bootstrap) as admin:
        assert [name for name in admin.list_topics() if str(name).startswith("lab-")] == []


def interrupt(config: str) -> None:
    """Interrupt a lab in the middle of its work; by SIGTERM, since tests in the background ignore SIGINT."""
    command = [sys.executable, "-m", "cdc", "-c", config, "lab", "groups"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stderr
        said = list(takewhile(lambda line: "member 1 dies" not in line, running.stderr))
        running.send_signal(signal.SIGTERM)
        assert running.wait(LIMIT_SECONDS) == 130
        assert "Traceback" not in "".join(said) + running.stderr.read()
        assert running.stdout.read() == ""

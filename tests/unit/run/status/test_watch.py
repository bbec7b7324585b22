"""A watch beside parts that are all down: it says so of each, takes no lease, and goes on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.config.file import read
from cdc.config.init import TemplateValues, template
from cdc.core.errors import PreconditionError
from cdc.core.waiting import Deadline
from cdc.run.pipeline import Pipeline
from cdc.run.status.document import Document
from cdc.run.status.things import Level, State
from cdc.run.status.watch import StatusWatch
from tests.support.parts.ports import free_port

LONG = 60.0


@pytest.fixture
def down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline of which nothing answers, and nothing is there."""
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "secret")
    values = TemplateValues(port=free_port(), dbname="shop", user="me", tables=("public.orders",))
    text = template(values)
    for port in ("9092", "8083", "9200"):
        text = text.replace(f":{port}", f":{free_port()}")
    (tmp_path / "cdc.yaml").write_text(text)
    return Pipeline(read(tmp_path / "cdc.yaml").settings)


@pytest.fixture
def watch(down: Pipeline) -> Iterator[StatusWatch]:
    with StatusWatch(down, every_seconds=0.2) as watching:
        yield watching


def test_each_silent_part_is_told_with_its_time(down: Pipeline, watch: StatusWatch) -> None:
    heard: list[Document] = []
    unsubscribe = watch.subscribe(heard.append)
    deadline, found = Deadline(LONG), None
    while found is None or found.parts["log"].state is not State.SILENT:
        assert not deadline.is_past, found
        found = watch.wait_newer(watch.seq, LONG)
    states = {name: part.state for name, part in found.parts.items()}
    assert states == {"source": State.SILENT, "capture": State.SILENT, "log": State.SILENT, "lake": State.NEW}
    assert [name for name, part in found.parts.items() if part.is_cause] == ["source"]
    # of the capture nobody knows since when, if the first look already finds it so
    assert all(found.parts[name].since for name in ("source", "log"))
    assert found.parts["capture"].since or heard[0].parts["capture"].state is State.SILENT
    assert found.verdict.level is Level.NOW
    assert found.verdict.title.startswith("Postgres shop does not answer, ")
    assert found.tables["public.orders"].state is State.LISTED
    assert found.exit_code == 4
    assert "secret" not in str(found)
    unsubscribe()
    told = len(heard)
    assert told > 0
    assert watch.wait_newer(watch.seq, LONG) is not None
    assert len(heard) == told


def test_a_look_takes_no_lease_and_reads_what_others_noted(down: Pipeline, watch: StatusWatch) -> None:
    with down.leases.hold("lake") as held:
        held.write_note(PreconditionError("the disk is full", "make room"))
        deadline, found = Deadline(LONG), None
        while found is None or "follower.stopped:lake" not in found.problems:
            assert not deadline.is_past, found
            found = watch.wait_newer(watch.seq, LONG)
        problem = found.problems["follower.stopped:lake"]
        assert str(problem) == "follower lake does not go on: the disk is full → make room"
    with down.leases.hold("lake"):
        pass


def test_a_watch_that_has_stopped_says_so_by_its_age(down: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = StatusWatch(down, every_seconds=0.2)
    assert watching.document() is None
    with watching:
        assert watching.wait_newer(0, LONG) is not None
    assert watching.wait_newer(watching.seq, LONG) is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LONG)
    old = watching.document()
    assert old is not None
    assert {part.state for part in old.parts.values()} == {State.UNKNOWN}
    assert old.verdict.title.startswith("Last known, at ")

"""A watch beside parts that are all down: it says so of each, takes no lease, and goes on."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from cdc.config.file import read
from cdc.config.init import TemplateValues, template
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.log.clients.knock import check_reachable
from cdc.run.pipeline import Pipeline
from cdc.run.status.document import Document
from cdc.run.status.things import Level, State
from cdc.run.status.watch import StatusWatch, look_once
from tests.support.parts.ports import free_port

LONG = 60.0


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "secret")


def pipeline_at(folder: Path, source: int, *others: int) -> Pipeline:
    """A pipeline whose parts listen at these ports: the source, Kafka, Connect, the index."""
    values = TemplateValues(port=source, dbname="shop", user="me", tables=("public.orders",))
    text = template(values)
    for port, own in zip(("9092", "8083", "9200"), others, strict=True):
        text = text.replace(f":{port}", f":{own}")
    (folder / "cdc.yaml").write_text(text)
    return Pipeline(read(folder / "cdc.yaml").settings)


@pytest.fixture
def down(tmp_path: Path) -> Pipeline:
    """A pipeline of which nothing answers, and nothing is there."""
    return pipeline_at(tmp_path, *(free_port() for _ in range(4)))


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[tuple[Pipeline, list[socket.socket]]]:
    """A pipeline whose parts take connections, and say nothing."""
    with ExitStack() as stack:
        parts = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        yield pipeline_at(tmp_path, *(part.getsockname()[1] for part in parts)), parts


def count_callers(part: socket.socket) -> int:
    """How many have connected to a part that takes no connection up."""
    part.setblocking(False)
    taken: list[socket.socket] = []
    with suppress(BlockingIOError):
        while True:
            taken.append(part.accept()[0])
    # not before all are counted: whoever still waits would hear of the end, and ask again why
    for each in taken:
        each.close()
    return len(taken)


def test_mute_parts_are_asked_side_by_side_and_once(
    mute: tuple[Pipeline, list[socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.run.status.asking.paces.SINGLE_SECONDS", 0.5)
    pipeline, parts = mute
    found = look_once(pipeline)
    assert [part.state for part in found.parts.values()] == [State.SILENT, State.SILENT, State.SILENT, State.NEW]
    assert {found.followers[name].state for name in ("search", "latest")} == {State.SILENT}
    # librdkafka connects as often as it likes
    source, _, connect, search = map(count_callers, parts)
    assert (source, connect, search) == (1, 1, 1)


def test_a_log_that_takes_no_connection_is_told_without_a_client(down: Pipeline) -> None:
    with pytest.raises(UnreachableError, match=r"Kafka localhost:\d+ does not answer: .*Connection refused"):
        check_reachable(down.settings.log)


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
    assert all(found.parts[name].since for name in ("source", "capture", "log"))
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

"""Of two who write to the same follower the later one goes on, and one that is alone is never overtaken."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from cdc.core.errors import RefusedError, UnreachableError
from cdc.log.clients.reader import Reader
from cdc.log.clients.topics import Admin
from cdc.log.clients.transactional_writer import TransactionalWriter
from cdc.log.settings import LogSettings
from cdc.sinks.latest.state import TableRecord
from cdc.sinks.latest.state_writer import StateWriter
from cdc.sinks.owner import Owner
from cdc.sinks.writer_claims import CLAIM_KEY
from tests.contract.followers import OTHERS
from tests.servers.latest.play import at
from tests.support.histories import THINGS

Start = Callable[..., StateWriter]
TAKEN = "another `cdc follow` has taken over: it writes as cdc-.*-latest, in process"


@pytest.fixture
def log(kafka_bootstrap: str) -> LogSettings:
    return LogSettings(bootstrap=kafka_bootstrap, prefix=f"c{uuid.uuid4().hex[:12]}")


@pytest.fixture
def start(log: LogSettings) -> Iterator[Start]:
    """Makes the state of a follower as one process after the other would; returns it as the one who writes."""
    started: list[StateWriter] = []

    def begin(follower: str = "latest") -> StateWriter:
        started.append(StateWriter(log, Owner(log.prefix, follower)))
        started[-1].open()
        return started[-1]

    yield begin
    for states in started:
        states.close()


def come_late(log: LogSettings) -> None:
    """A writer that a process gave up, or its request, reaches the broker behind those that came after it."""
    TransactionalWriter(log, f"cdc-{log.prefix}-latest").close()


def fail(states: StateWriter) -> None:
    """A transaction fails, as while no broker answers: the next one opens a writer again."""
    with pytest.raises(UnreachableError, match="gone"), states.transaction():
        raise UnreachableError("gone")


def test_one_that_is_alone_goes_on(start: Start, log: LogSettings) -> None:
    alone = start()
    alone.register([TableRecord(THINGS)])
    come_late(log)
    with pytest.raises(UnreachableError, match="though nobody else has taken over"):
        alone.register([TableRecord(OTHERS)])
    alone.register([TableRecord(OTHERS)])
    assert StateWriter(log, Owner(log.prefix, "latest")).read().tables.keys() == {THINGS.name, OTHERS.name}


def test_the_later_one_goes_on_though_the_earlier_opens_last(start: Start, log: LogSettings) -> None:
    first, second = start(), start()
    # the first one's writer, which it was opening when the second one came
    come_late(log)
    with pytest.raises(UnreachableError, match="though nobody else has taken over"):
        second.register([TableRecord(THINGS)])
    second.register([TableRecord(THINGS)])
    with pytest.raises(RefusedError, match=TAKEN):
        first.register([TableRecord(OTHERS)])
    assert second.read().tables.keys() == {THINGS.name}


def test_the_earlier_one_does_not_come_back(start: Start) -> None:
    first = start()
    fail(first)
    second = start()
    for _ in range(2):
        with pytest.raises(RefusedError, match=TAKEN):
            first.register([TableRecord(THINGS)])
    # nor has it fenced the second one by its tries
    second.register([TableRecord(OTHERS)])
    # told to write again, it is the later one
    first.close()
    first.register([TableRecord(THINGS)])
    with pytest.raises(RefusedError, match=TAKEN):
        second.register([TableRecord(OTHERS)])


def test_another_pipelines_claim_in_the_same_topic_is_none(start: Start, log: LogSettings) -> None:
    states = start()
    start("other")
    fail(states)
    states.register([TableRecord(THINGS)])
    come_late(log)
    with pytest.raises(UnreachableError, match="though nobody else has taken over"):
        states.register([TableRecord(OTHERS)])


def test_a_claim_that_was_deleted_is_made_again(start: Start, log: LogSettings) -> None:
    states = start()
    topic = f"{log.prefix}.latest-position"
    with Admin(log) as admin:
        admin.delete_wholly([topic])
    fail(states)
    with states.transaction() as writer:
        states.write_position(writer, at(1))
    with Reader(log) as reader:
        ends = reader.end([topic])[topic]
        keys = [record.key for record in reader.read(topic, 0, 0, ends[0])]
    assert keys == [CLAIM_KEY, b"position"]

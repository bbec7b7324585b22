"""A run is read as far as its ENDs count, whatever else comes meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import cast

import pytest

from cdc.columns.netting.changes import Messages
from cdc.columns.netting.ends import Ends, to_columns
from cdc.core.errors import HistoryLostError, TopicLostError
from cdc.core.position import Lsn
from cdc.core.transaction import TransactionEnd
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.run_reader import RunReader, RunTooLargeError
from cdc.run.follow.lake.table_joiner import read_parts
from tests.support.debezium import PLACEHOLDER
from tests.support.model import Change, CommitOrder, Delete, Insert
from tests.unit.log.log_in_memory import LogInMemory, inserts, one_by_one, table

THINGS = table("things")
TOPIC = "p.public.things"
READS = 10_000
"""So often is enough for whoever is to come to an end."""


def run_of(transactions: Sequence[int], changes: int | None = None) -> Ends:
    """ENDs of one change each, the last of what is left of `changes`."""
    counts = [1] * len(transactions)
    counts[-1] += (changes or len(transactions)) - len(transactions)
    counted = zip(transactions, counts, strict=True)
    return to_columns([TransactionEnd(n, n, Lsn(n), 0, {str(THINGS.name): count}) for n, count in counted])


def limit_reads(news: Iterator[Mapping[str, Messages]]) -> Iterator[Mapping[str, Messages]]:
    for _, each in zip(range(READS), news, strict=False):
        yield each
    raise AssertionError("it reads without an end")


def test_one_that_becomes_whole_behind_the_deadline_is_read() -> None:
    # the first is of an older transaction: as many wait as the run counts, and it is looked at too soon
    *sent, last = inserts(THINGS, range(6))
    log = LogInMemory({TOPIC: sent}, limit_reads(chain([{TOPIC: last}], repeat({}))))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER, 0.0)
    changes = reader.read(run_of(range(1, 6)), [THINGS], {}).batch.changes[THINGS.name].changes
    assert changes.tx_id.tolist() == [*range(1, 6)]


@pytest.mark.parametrize(("lost", "lacks"), [(0, "1 delete of updated keys"), (1, "1 create of updated keys")])
def test_half_of_an_updated_key_is_told(lost: int, lacks: str) -> None:
    """The END counts no more: what a killed Debezium has not sent, it has not counted."""
    update: list[Change] = [
        Delete(THINGS.name, CommitOrder(2, 1), (1,), (2,)),
        Insert(THINGS.name, CommitOrder(2, 2), (2,), {"id": 2, "was": "x"}, (1,)),
    ]
    whole = LogInMemory({TOPIC: one_by_one(THINGS, [insert(1, 1, 1), *update, *update])}, repeat({}))
    RunReader(cast("StandingConsumer", whole), "p", PLACEHOLDER).read(run_of([1, 2], 3), [THINGS], {})
    log = LogInMemory({TOPIC: one_by_one(THINGS, [insert(1, 1, 1), update[1 - lost]])}, repeat({}))
    with pytest.raises(TopicLostError, match=lacks):
        RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER).read(run_of([1, 2]), [THINGS], {})


def test_a_transaction_of_two_captures_is_told() -> None:
    """What was sent before the capture was changed has other numbers than what was sent after it."""
    first, then = ([insert(1, 1, 10), insert(1, 2, 11)], [insert(1, 1, 10), insert(1, 2, 12), insert(1, 3, 11)])
    log = LogInMemory({TOPIC: one_by_one(THINGS, [*first, *then])}, repeat({}))
    with pytest.raises(TopicLostError, match="two changes under one number"):
        RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER).read(run_of([1], 3), [THINGS], {})
    more = LogInMemory({TOPIC: one_by_one(THINGS, then)}, repeat({}))
    with pytest.raises(TopicLostError, match="holds 3 of 2 changes"):
        RunReader(cast("StandingConsumer", more), "p", PLACEHOLDER).read(run_of([1], 2), [THINGS], {})


def insert(rank: int, number: int, key: int) -> Insert:
    return Insert(THINGS.name, CommitOrder(rank, number), (key,), {"id": key, "was": "x"})


def trickling() -> Iterator[Mapping[str, Messages]]:
    for message in inserts(table("other"), range(READS)):
        yield {"p.public.other": message}


def test_one_that_is_lost_is_told_though_other_tables_go_on() -> None:
    log = LogInMemory({TOPIC: inserts(THINGS, range(3))}, limit_reads(trickling()))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER, 0.0)
    with pytest.raises(HistoryLostError, match="holds 3 of 5 changes"):
        reader.read(run_of(range(5)), [THINGS], {})


def test_one_of_more_bytes_than_fit_is_left_before_all_of_it_is_read() -> None:
    messages = inserts(THINGS, range(100), "x" * 10_000)
    log = LogInMemory({TOPIC: []}, limit_reads({TOPIC: each} for each in messages))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER)
    with pytest.raises(RunTooLargeError):
        reader.read(run_of(range(100)), [THINGS], {}, most_bytes=250_000)
    assert 20 <= log.reads <= 25
    # nothing of it waits on, which would count as a shorter run's
    assert log.forgotten == {TOPIC}
    # one that is whole is read, whatever its size
    log = LogInMemory({TOPIC: messages}, limit_reads(repeat({})))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER)
    assert len(reader.read(run_of(range(100)), [THINGS], {}, most_bytes=1).batch.changes[THINGS.name].changes) == 100


def test_a_joining_table_of_large_rows_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.run.follow.lake.table_joiner.MOST_RUN_BYTES", 250_000)
    messages = inserts(THINGS, range(100), "x" * 10_000)
    log = LogInMemory({TOPIC: []}, limit_reads({TOPIC: each} for each in messages))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER)
    parts = [*read_parts(reader, run_of(range(100)), [THINGS], {})]
    assert [id for part in parts for id in part.batch.changes[THINGS.name].changes.tx_id.tolist()] == [*range(100)]
    assert max(len(part.batch.ends) for part in parts) <= 25


def test_a_transaction_is_read_whole_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.run.follow.lake.table_joiner.MOST_RUN_BYTES", 1)
    log = LogInMemory({TOPIC: []}, limit_reads({TOPIC: each} for each in inserts(THINGS, range(3))))
    reader = RunReader(cast("StandingConsumer", log), "p", PLACEHOLDER)
    assert [len(part.batch.ends) for part in read_parts(reader, run_of(range(3)), [THINGS], {})] == [1, 1, 1]

"""Where the changes of a table begin: behind its copy, which may hold more than its topic had when it began."""

import json
from typing import cast

from cdc.core.position import Lsn
from cdc.log.clients.reader import Reader, Record
from cdc.log.transactions import find_covered
from cdc.run.read.changes import skip_covered
from tests.unit.log.test_changes_behind import TOPIC, CountedReader


def record(offset: int, transaction: int | None) -> Record:
    """A change of a transaction, or a tombstone."""
    source = {"lsn": 1, "ts_ms": 1, "txId": transaction}
    value = None if transaction is None else json.dumps({"source": source}).encode()
    return Record("p.things", 0, offset, b"{}", value)


def test_changes_begin_behind_the_last_one_that_the_copy_has() -> None:
    records = [record(40, 7), record(41, None), record(43, 8), record(44, 9), record(46, 7)]
    assert skip_covered(records, {7, 8}, 40) == 44
    assert skip_covered(records, {8}, 40) == 40
    assert skip_covered(records, {7, 8, 9}, 40) == 47
    assert skip_covered([], {7}, 40) == 40


def test_transactions_of_the_copy_are_those_between_its_place_and_its_lsn() -> None:
    reader = CountedReader(100)
    assert find_covered(cast("Reader", reader), TOPIC, 98, Lsn(1000)) == {7}
    assert find_covered(cast("Reader", reader), TOPIC, 50, Lsn(49)) == frozenset()
    # the first END above it ends the search
    assert reader.read_count == 2 + 1
    assert find_covered(cast("Reader", reader), TOPIC, 1000, Lsn(5000)) == frozenset()

"""Tables without a key: rows come and go as often as they do, in whatever order the changes are read."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.changes import Changes, Messages
from cdc.columns.netting.net_keyless import fold_keyless
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.core.table import Column, Kind, Table, TableName
from tests.support.examples import examples

LOGS = Table(TableName("public", "logs"), (Column("a", Kind.INTEGER), Column("b", Kind.TEXT)), ())
Row = tuple[int | None, str | None]
rows = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "", "x"]))
steps = st.lists(st.tuples(st.sampled_from("iiiudt"), rows, st.integers(0, 5)), max_size=30)


def played(history: Sequence[tuple[str, Row, int]], before: Counter[Row]) -> tuple[list[dict[str, Any]], Counter[Row]]:
    """What Debezium sends of these steps, and the rows that are there in the end."""
    there, events = Counter(before), list[dict[str, Any]]()
    for op, row, which in history:
        known = sorted(there.elements(), key=repr)
        old = known[which % len(known)] if known else None
        if op == "t":
            there.clear()
            events.append({"op": "t", "before": None, "after": None})
        elif op == "i" or old is None:
            there[row] += 1
            events.append({"op": "c", "before": None, "after": named(row)})
        else:
            there -= Counter([old])
            there += Counter([row] if op == "u" else [])
            events.append({"op": op, "before": named(old), "after": named(row) if op == "u" else None})
    return events, there


def named(row: Row) -> dict[str, object]:
    return dict(zip(("a", "b"), row, strict=True))


def messages(events: Sequence[dict[str, Any]], first: int = 1) -> Messages:
    values = [
        msgspec.json.encode({**event, "source": {"txId": 7}, "transaction": {"data_collection_order": at}})
        for at, event in enumerate(events, first)
    ]
    count = len(values)
    zeros = np.zeros(count, np.int64)
    return Messages("t", zeros, np.arange(count), [None] * count, values, [None] * count, zeros.astype(np.bool_))


def decoded(found: Messages) -> Changes:
    read = Decoder(LOGS, "?").decode(found)
    assert not read.refused
    return read.changes


def counted(table: Any) -> Counter[Row]:
    return Counter(tuple(row[name] for name in LOGS.column_names) for row in table.to_pylist())


@examples(500)
@given(st.lists(rows, max_size=5), steps, st.randoms(use_true_random=False))
def test_keyless_rows_are_counted(copied: list[Row], history: list[tuple[str, Row, int]], shuffle: Random) -> None:
    before = Counter(copied)
    events, expected = played(history, before)
    changes = decoded(messages(events))
    order = [*range(len(events)), *(shuffle.choices(range(len(events)), k=3) if events else ())]
    shuffle.shuffle(order)
    again = changes.take(np.array(order, np.int64))
    net = fold_keyless(again, np.ones(len(order), np.int64))
    held = Counter[Row]() if net.truncated else before
    gone, fresh = counted(net.gone_columns), counted(net.rows)
    assert gone <= held, "a row is to go that is not there"
    assert held - gone + fresh == expected
    assert not (gone.keys() & fresh.keys()), "a row both goes and comes"
    assert (net.keys.pairs(), net.gone.pairs()) == (
        row_bits(net.rows, LOGS).pairs(),
        row_bits(net.gone_columns, LOGS).pairs(),
    )


def test_keyless_message_without_a_change_is_refused() -> None:
    whole = named((1, "x"))
    events: list[dict[str, Any]] = [
        {"op": "u", "before": None, "after": whole},
        {"op": "d", "before": whole, "after": whole},
        {"op": "c", "before": None, "after": None},
        {"op": "u", "before": {**whole, "b": "?"}, "after": whole},
        {"op": "c", "before": None, "after": {**whole, "c": 1}},
        {"op": "c", "before": None, "after": whole},
    ]
    read = Decoder(LOGS, "?").decode(messages(events))
    assert [each.refusal.reason for each in sorted(read.refused, key=lambda each: each.refusal.offset)] == [
        "no old row",
        "row where none may be",
        "no row",
        "old column b: its value was not sent",
        "its columns have changed: more [c], less []",
    ]
    assert len(read.changes) == 1

"""Messages as Debezium writes them: changes, or refusals that say why; no bytes get past."""

import json
from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.decoding.decoder import Decoder
from cdc.columns.netting.changes import Decoded, Op
from cdc.columns.rows.key_fingerprints import key_bits
from cdc.core.table import Column, Kind, Table, TableName
from tests.support.debezium import as_messages

TABLE = Table(
    TableName("public", "t"),
    (
        Column("id", Kind.INTEGER),
        Column("a b", Kind.TEXT),
        Column("j", Kind.JSON),
        Column("d", Kind.DECIMAL, 10, 2),
        Column("raw", Kind.BYTES),
    ),
    ("id",),
)
ROW = {"id": 1, "a b": "x", "j": '{"k": 1.10}', "d": "1.50", "raw": "AP8="}
UNSENT, UNSENT_BYTES = "__unsent__", "X191bnNlbnRfXw=="


def message(value: object, key: bytes | None = b'{"id":1}', old_key: bytes | None = None) -> dict[str, object]:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    place = {"topic": "p.t", "partition": 0, "offset": 5}
    return {**place, "key": key, "value": content, "old_key": old_key, "moves_on": False}


def envelope(after: Mapping[str, object] | None, op: str = "c") -> dict[str, object]:
    return {"op": op, "source": {"txId": 7, "lsn": 3}, "transaction": {"data_collection_order": 1}, "after": after}


def decoded(*messages: dict[str, object]) -> Decoded:
    return Decoder(TABLE, UNSENT).decode(as_messages(messages))


def test_insert_is_decoded_to_the_tables_columns() -> None:
    found = decoded(message(envelope(ROW)))
    assert found.refused == ()
    assert found.changes.rows.to_pylist() == [{**ROW, "d": Decimal("1.50"), "raw": b"\x00\xff"}]
    assert (found.changes.tx_id[0], found.changes.number[0], found.changes.op[0]) == (7, 1, Op.CREATE)
    assert found.changes.keys.pairs() == key_bits(TABLE.key_columns, [pa.array([1], pa.int32())]).pairs()


def test_nulls_and_unsent_values_differ() -> None:
    sent = {**ROW, "a b": UNSENT, "j": None, "raw": UNSENT_BYTES}
    found = decoded(message(envelope(sent, "u")), message(envelope(ROW, "u"))).changes
    assert {name: mask.tolist() for name, mask in found.unsent.items()} == {"a b": [True, False], "raw": [True, False]}
    assert found.rows.to_pylist()[0] == {**ROW, "a b": None, "j": None, "d": Decimal("1.50"), "raw": None}


def test_delete_and_truncate_have_no_row() -> None:
    found = decoded(message(envelope(None, "d")), message(envelope(None, "t"), key=None)).changes
    assert found.op.tolist() == [Op.DELETE, Op.TRUNCATE]
    assert found.rows.to_pylist() == [dict.fromkeys(ROW)] * 2
    assert found.key_columns.to_pylist() == [{"id": 1}, {"id": None}]


def test_key_update_names_the_old_key() -> None:
    found = decoded(message(envelope({**ROW, "id": 2}), b'{"id":2}', b'{"id":1}'), message(envelope(ROW))).changes
    assert found.has_former.tolist() == [True, False]
    assert found.former.take(found.has_former).pairs() == found.keys.pairs()[1:]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (message(envelope({**ROW, "new": 1})), "its columns have changed: more [new], less []"),
        (message(envelope({k: v for k, v in ROW.items() if k != "j"})), "its columns have changed: more [], less [j]"),
        (message(envelope(ROW), b'{"id":1,"f2":2}'), "its key columns have changed: more [f2], less []"),
        (message(envelope(ROW), b'{"id":2}'), "its key is not that of its row"),
        (message(envelope(ROW), None), "no key"),
        (message(envelope({**ROW, "id": None}), b'{"id":null}'), "key column id: no integer"),
        (
            message(envelope({**ROW, "d": "NAN"})),
            "column d holds NaN, which followers cannot hold unless it is followed as text (source.column_types)",
        ),
        (message(envelope({**ROW, "d": "1.555"})), "column d: no decimal"),
        (message(envelope({**ROW, "id": 2**31}), b'{"id":2147483648}'), "key column id: no integer"),
        (message(envelope(ROW, "x")), "unknown operation 'x'"),
        (message(envelope(None, "u")), "no row"),
        (message(envelope(ROW, "d")), "a row where none may be"),
        (message({"op": "c", "source": {"txId": 7}}), "no change event: Object missing required field `transaction`"),
        (message(envelope({**ROW, "raw": "!"})), "no change event: Invalid base64 encoded string - at `$.after.raw`"),
    ],
)
def test_undecodable_message_is_refused_with_its_reason(bad: dict[str, object], told: str) -> None:
    found = decoded(message(envelope(ROW)), bad, message(envelope(ROW)))
    assert found.at.tolist() == [0, 2]
    [refused] = found.refused
    assert (refused.refusal.reason, refused.tx_id, refused.value) == (told, 7, bad["value"])


@given(st.binary() | st.text().map(str.encode) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_bytes_are_refused(value: bytes | str) -> None:
    found = decoded(message(value.encode() if isinstance(value, str) else value))
    assert (len(found.changes), len(found.refused)) == (0, 1)


@given(st.integers(0, 400), st.integers(0, 255))
def test_damaged_message_does_not_affect_others(place: int, byte: int) -> None:
    """Whatever a changed byte makes of a message, the others come through."""
    whole = json.dumps(envelope(ROW)).encode()
    damaged = whole[: place % len(whole)] + bytes([byte]) + whole[place % len(whole) + 1 :]
    found = decoded(message(whole), message(damaged))
    assert len(found.changes) + len(found.refused) == 2
    assert 0 in found.at

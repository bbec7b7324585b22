"""The digest of a history's rows is that of their values: however they are read, and of each value."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdc.sinks.lake.history.value_bytes import feed_values

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int32(), [1, None, 0, -5]),
    "doubles": (pa.float64(), [1.5, None, 0.0, -0.0, float("nan")]),
    "bools": (pa.bool_(), [True, None, False]),
    "decimals": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("100.00"), Decimal("0.00")]),
    "texts": (pa.string(), ["", None, "a", "bc", "\u00e9"]),
    "bytes": (pa.binary(), [b"", None, b"\0", b"ab"]),
    "dates": (pa.date32(), [0, None, 20000]),
    "times": (pa.timestamp("us", "UTC"), [0, None, 10**15]),
    "lists": (pa.list_(pa.string()), [[], None, ["a", None], ["a"], [""]]),
    "structs": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))]), [None, {"x": None, "y": []}, {"x": 1}]),
}


def fed(values: pa.Array) -> bytes:
    parts = list[bytes]()
    feed_values(lambda part: parts.append(bytes(part)), values)
    return b"|".join(parts)


@pytest.mark.parametrize("name", VALUES)
def test_equal_values_have_equal_bytes_wherever_they_lie(name: str) -> None:
    kind, values = VALUES[name]
    array = pa.array(values, kind)
    around = pa.array([*values, *values, *values], kind)
    assert fed(around.slice(len(values), len(values))) == fed(array)
    assert fed(pa.concat_arrays([array.slice(0, 1), array.slice(1)])) == fed(array)


@pytest.mark.parametrize("name", VALUES)
def test_a_changed_value_changes_the_bytes(name: str) -> None:
    kind, values = VALUES[name]
    array = pa.array(values, kind)
    seen = {fed(array)}
    for at in range(len(values)):
        for other in range(len(values)):
            if array[at].as_py() != array[other].as_py() and not (name == "doubles" and other == 4):
                changed = [*values[:at], values[other], *values[at + 1 :]]
                seen.add(fed(pa.array(changed, kind)))
                assert fed(pa.array(changed, kind)) != fed(array), (at, other)
    assert len(seen) > len(values)


def test_a_column_may_be_widened() -> None:
    assert fed(pa.array([1, None], pa.int16())) == fed(pa.array([1, None], pa.int64()))
    assert fed(pa.array([1.5], pa.float32())) == fed(pa.array([1.5], pa.float64()))
    narrow, wide = pa.decimal128(8, 2), pa.decimal128(20, 6)
    assert fed(pa.array([Decimal("10.50"), Decimal(100)], narrow)) == fed(
        pa.array([Decimal("10.5"), Decimal(100)], wide)
    )

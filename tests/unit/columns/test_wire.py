"""What Debezium writes becomes the column's value exactly, or is refused."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.moments import time_of_day
from cdc.columns.types.registry import type_of
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind


def arrow(kind: Kind, *values: object, precision: int = 0, scale: int = 0) -> pa.Array:
    column = Column("c", kind, precision, scale)
    return type_of(column).from_log(values, column)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_timestamps_with_a_zone_are_in_utc(moment: datetime) -> None:
    text = moment.isoformat(timespec="microseconds") + "Z"
    assert arrow(Kind.TIMESTAMPTZ, text, "+10000-01-01T00:00:00Z")[0].as_py() == moment.replace(tzinfo=UTC)
    assert arrow(Kind.TIMESTAMPTZ, text, None).to_pylist() == [moment.replace(tzinfo=UTC), None]


def test_years_beyond_pythons_are_converted() -> None:
    texts = ("+12024-02-29T12:34:56Z", "-0043-03-15T00:00:00.000001Z", "0000-12-31T23:59:59.5+00:00")
    found = arrow(Kind.TIMESTAMPTZ, *texts).cast(pa.int64()).to_pylist()
    assert found == [317_278_730_096_000_000, -63_517_823_999_999_999, -62_135_596_800_500_000]


def test_decimals_keep_every_digit() -> None:
    digits = "-1234567890123456789012345678.0123456789"
    assert arrow(Kind.DECIMAL, digits, None, precision=38, scale=10).to_pylist() == [Decimal(digits), None]
    assert arrow(Kind.NUMERIC, "1.10", "NAN", None).to_pylist() == ["1.10", "NaN", None]


def test_nan_and_infinity_come_as_text() -> None:
    assert [str(value) for value in arrow(Kind.DOUBLE, 0.1, "NaN", "-Infinity", 3).to_pylist()] == [
        "0.1",
        "nan",
        "-inf",
        "3.0",
    ]
    assert arrow(Kind.REAL, 0.1, None).cast(pa.string()).to_pylist() == ["0.1", None]


@pytest.mark.parametrize(
    ("kind", "value", "digits"),
    [
        (Kind.SMALLINT, 2**15, 0),
        (Kind.BIGINT, 2**63, 0),
        (Kind.REAL, 1e39, 0),
        (Kind.DOUBLE, "x", 0),
        (Kind.DECIMAL, "1.555", 10),
        (Kind.DECIMAL, "123456789", 10),
        (Kind.DECIMAL, "NAN", 10),
        (Kind.DATE, 2**31 - 1, 0),
        (Kind.TIME, -1, 0),
        (Kind.TIMESTAMP, 2**63 - 1, 0),
        (Kind.TIMESTAMPTZ, "infinity", 0),
        (Kind.TEXT, "\ud800", 0),
    ],
)
def test_value_that_a_column_cannot_hold_raises(kind: Kind, value: object, digits: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        arrow(kind, value, precision=digits, scale=2 if digits else 0)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.TIMESTAMPTZ, "-infinity"),
        (Kind.TIMESTAMPTZ, "+294247-01-01T00:00Z"),
        (Kind.TIMESTAMP, 9_223_371_331_200_000_000),
        (Kind.TIMESTAMP, 9_223_371_244_800_000_000),
    ],
)
def test_infinite_or_late_timestamp_raises(kind: Kind, value: object) -> None:
    with pytest.raises(UnsupportedValueError, match="infinity"):
        arrow(kind, value)


def test_times_of_day_have_six_digits() -> None:
    assert [time_of_day(micros) for micros in (0, 86_399_999_999, 86_400_000_000)] == [
        "00:00:00.000000",
        "23:59:59.999999",
        "24:00:00.000000",
    ]

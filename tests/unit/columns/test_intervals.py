"""Intervals of Postgres and of its driver are one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.columns.types.intervals import to_iso


@pytest.mark.parametrize(
    ("postgres", "driver", "expected"),
    [
        ("00:00:00", "0 secs", "PT0S"),
        (
            "1 year 2 mons -3 days +04:05:06.789",
            "1 years 2 mons -3 days 4 hours 5 mins 6.789 secs",
            "P1Y2M-3DT4H5M6.789S",
        ),
        ("-00:00:00.000001", "-0.000001 secs", "PT-0.000001S"),
        ("1 day -24:00:00", "1 days -24 hours", "P1DT-24H"),
        ("-178000000 years", "-178000000 years", "P-178000000Y"),
        (
            "-1 years -1 mons +1 day -01:02:03.5",
            "-1 years -1 mons 1 days -1 hours -2 mins -3.5 secs",
            "P-1Y-1M1DT-1H-2M-3.5S",
        ),
        ("1 mon", "1 mons", "P1M"),
        ("01:00:00", "1 hours", "PT1H"),
    ],
)
def test_intervals_of_postgres_and_its_driver_have_one_form(postgres: str, driver: str, expected: str) -> None:
    assert to_iso(postgres) == to_iso(driver) == expected


@pytest.mark.parametrize("text", ["infinity", "-infinity", "", "P1D"])
def test_infinite_or_invalid_interval_raises(text: str) -> None:
    with pytest.raises(ValueError, match=r"infinity|no interval"):
        to_iso(text)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**6), 10**6), st.integers(-(10**15), 10**15))
def test_clock_and_words_agree(months: int, days: int, micros: int) -> None:
    sign, (seconds, fraction) = "-" if micros < 0 else "", divmod(abs(micros), 1_000_000)
    clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    words = f"{sign}{seconds // 3600} hours {sign}{seconds // 60 % 60} mins {sign}{seconds % 60}.{fraction:06} secs"
    assert to_iso(f"{months} mons {days} days {clock}") == to_iso(f"{months} mons {days} days {words}")

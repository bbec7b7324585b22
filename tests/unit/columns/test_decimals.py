"""A number becomes the decimal that it is, or is refused: nothing is rounded, cut or turned around."""

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc.columns.types.decimals import nearest_doubles, to_decimals
from cdc.columns.types.registry import type_of
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column, Kind
from tests.support.examples import examples

EXACT = Context(prec=200_000)
sizes = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))
written = st.from_regex(r"-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,45})?", fullmatch=True)


def column(precision: int, scale: int, *, array: bool = False) -> Column:
    return Column("c", Kind.DECIMAL, precision, scale, array=array, chosen=f"decimal({precision},{scale})")


def from_text(texts: list[str | None], of: Column) -> list[object]:
    found: list[object] = type_of(of).from_text(texts, of).to_pylist()
    return found


def fits(number: Decimal, precision: int, scale: int) -> bool:
    moved = number.scaleb(scale, EXACT)
    return moved == moved.to_integral_value(context=EXACT) and moved.copy_abs() < 10**precision


@examples(2_000)
@given(st.lists(st.none() | written, min_size=1, max_size=4), sizes)
@example(["9999999999.99"], (38, 38))
@example([f"0.{'0' * 400}1"], (38, 38))
@example(["9" * 400], (12, 2))
@example([f"{'9' * 36}.{'0' * 99}", None], (36, 0))
@example(["-0.00"], (1, 1))
def test_number_is_held_exactly_or_refused(texts: list[str | None], size: tuple[int, int]) -> None:
    numbers = [None if text is None else Decimal(text) for text in texts]
    if all(number is None or fits(number, *size) for number in numbers):
        assert to_decimals(pa.array(texts, pa.string()), column(*size)).to_pylist() == numbers
    else:
        with pytest.raises(UnsupportedValueError, match=r"a number beyond decimal\("):
            to_decimals(pa.array(texts, pa.string()), column(*size))


@pytest.mark.parametrize("text", ["NaN", "NAN", "Infinity", "NEGATIVE_INFINITY", "-Infinity", "POSITIVE_INFINITY"])
def test_what_is_no_number_is_named(text: str) -> None:
    with pytest.raises(UnsupportedValueError, match="NaN or infinity"):
        to_decimals(pa.array(["1", None, text]), column(5, 2))


@pytest.mark.parametrize("text", ["", "1e5", "0x1", "1 ", "\N{ARABIC-INDIC DIGIT ONE}", "1.2.3"])
def test_other_texts_are_no_values(text: str) -> None:
    with pytest.raises(ValueError, match="no number") as refused:
        to_decimals(pa.array([text]), column(5, 2))
    assert not isinstance(refused.value, UnsupportedValueError)


def test_scales_of_one_number_are_one_value_by_log_and_by_copy() -> None:
    texts, expected = ["1", "1.0", "1.000", None], [Decimal("1.00")] * 3 + [None]
    assert type_of(column(5, 2)).from_log(texts, column(5, 2)).to_pylist() == expected
    assert from_text(texts, column(5, 2)) == expected
    assert from_text(["{1,1.0,1.000,NULL}", None], column(5, 2, array=True)) == [expected, None]


def test_element_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedValueError, match="beyond"):
        from_text(["{1,1.005}"], column(5, 2, array=True))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**300), max_value=10**300))
def test_numeric_becomes_its_nearest_double(value: Decimal) -> None:
    (found,) = nearest_doubles(pa.array([f"{value:f}"])).to_pylist()
    assert repr(found) == repr(float(value))


def test_number_beyond_all_doubles_raises() -> None:
    assert (
        str(nearest_doubles(pa.array(["NaN", "Infinity", "-Infinity", None])).to_pylist()) == "[nan, inf, -inf, None]"
    )
    with pytest.raises(UnsupportedValueError, match="no double is near to"):
        nearest_doubles(pa.array(["1", "-1" + "0" * 309]))

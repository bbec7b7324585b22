"""numeric and money: decimals of a fixed precision and scale, digit for digit; numerics without bounds are text.

Arrow's own cast from text is exact only for numbers that fit: of others it may keep the lower 128 bits without an error
(`9999999999.99` as decimal(38,38) gives 0.179…). So the texts are checked first.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.arrays import Integers
from cdc.columns.types.copied_fields import Field, VariableColumn, check_supported, to_array, to_texts
from cdc.columns.types.postgres_type import AS_TEXT, KEYWORD, Bytes, KeyForm, PostgresType
from cdc.columns.types.text_meaning import AS_NUMBERS, Meaning
from cdc.columns.types.texts import SHORT_TEXT, put_in_quotes
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import MAX_DECIMAL_DIGITS, MONEY, Column, Kind

AS_DECIMAL: Final = 'follow it as a decimal: source.column_types: {{{table}: {{{column}: "decimal(38,9)"}}}}'
LONGEST_WHOLE: Final = 18
"""The most digits of a decimal that fits into 64 bits."""
NOT_NUMBERS: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Debezium's texts for a numeric that is no number → Postgres's."""
_NOT_FINITE: Final = pa.array([*NOT_NUMBERS, *NOT_NUMBERS.values()])
_NUMBER: Final = r"^-?\d+(\.\d+)?$"
_INFINITIES: Final = ("Infinity", "-Infinity")
_NEGATIVE, _BASE_DIGITS = 0x4000, 4
_POWERS: Final = np.power(10, np.arange(LONGEST_WHOLE + 1), dtype=np.int64)
_GROUPS, _WEIGHT, _SIGN, _FIRST = 0, 1, 2, 4
_ARROWS_BYTES: Final = 16


def to_decimals(texts: pa.Array, column: Column) -> pa.Array:
    """Convert numerics, as Postgres or Debezium writes them, to the column's decimals; nothing is rounded.

    Zeros behind the last digit of the scale may be there: 1.000 is 1.00. Raises UnsupportedValueError for NaN, infinity
    and a number that has more digits, ValueError for a text that is no number.
    """
    if not _all_match(texts, _fitting(column.precision, column.scale)):
        texts = pc.replace_substring_regex(texts, _trailing_zeros(column.scale), r"\1")
        _check_fit(texts, column)
    return pc.cast(texts, _arrow_type(column))


def _check_fit(texts: pa.Array, column: Column) -> None:
    if _all_match(texts, _fitting(column.precision, column.scale)):
        return
    if pc.any(pc.is_in(texts, _NOT_FINITE)).as_py():
        raise UnsupportedValueError("NaN or infinity" if column.chosen else "NaN")
    # what Postgres declares bounds its numbers: such a one is of another column than this
    if not column.chosen or not _all_match(texts, _NUMBER):
        raise ValueError("no number")
    raise UnsupportedValueError(f"a number beyond decimal({column.precision},{column.scale})")


def _all_match(texts: pa.Array, pattern: str) -> bool:
    # null where there are only nulls
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


@cache
def _fitting(precision: int, scale: int) -> str:
    """A pattern of the numbers with so many digits, as they are written without leading zeros."""
    whole = rf"\d{{1,{precision - scale}}}" if precision > scale else "0"
    return rf"^-?{whole}(\.\d{{1,{scale}}})?$" if scale else rf"^-?{whole}$"


@cache
def _trailing_zeros(scale: int) -> str:
    return rf"^(-?\d+\.\d{{{scale}}})0+$" if scale else r"^(-?\d+)\.0+$"


def nearest_doubles(texts: pa.Array) -> pa.Array:
    """Convert each numeric to its nearest double (ties to even); NaN and infinities stay.

    Raises UnsupportedValueError for a number beyond all doubles, which would become infinity.
    """
    doubles = pc.cast(texts, pa.float64())
    # Arrow's cast does not raise for 1e400, it answers infinity
    beyond = pc.and_(pc.is_inf(doubles), pc.invert(pc.is_in(texts, pa.array(_INFINITIES))))
    if pc.any(beyond).as_py():
        raise UnsupportedValueError("a number that no double is near to")
    return doubles


def read_numerics(values: Sequence[Any], column: Column) -> pa.Array:
    """Debezium's texts of numerics as Postgres's."""
    return pa.array([NOT_NUMBERS.get(value, value) for value in values], pa.string())


def _arrow_type(column: Column) -> pa.DataType:
    return pa.decimal128(column.precision, column.scale)


def _read(values: Sequence[Any], column: Column) -> pa.Array:
    return to_decimals(pa.array(values, pa.string()), column)


def _from_text(texts: Sequence[str | None], column: Column) -> pa.Array:
    # the text of money has a currency sign and separators
    return _read([text and text.replace("$", "").replace(",", "") for text in texts], column)


def _to_json(array: pa.Array) -> pa.Array:
    text = pc.cast(array, pa.string())
    # Arrow writes 1.00E-8 and 0E-10, Postgres all digits
    scientific = pc.match_substring(text, "E")
    if pc.any(scientific).as_py():
        # Decimal keeps the scale: 0E-10 becomes 0.0000000000
        plain = pa.array([f"{Decimal(value):f}" for value in text.filter(scientific).to_pylist()])
        text = pc.replace_with_mask(text, pc.fill_null(scientific, False), plain)
    return put_in_quotes(text)


def _key_form(width: int) -> KeyForm:
    def to_bytes(array: pa.Array) -> Bytes:
        # unscaled values in little-endian bytes; a slice shares the buffers of the whole array, so apply its offset
        data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, _ARROWS_BYTES)
        data = data[array.offset : array.offset + len(array)]
        # the upper bytes are cut: they only repeat the sign
        return data[:, width - 1 :: -1] if width < _ARROWS_BYTES else data[:, ::-1]

    return KeyForm(width, to_bytes)


def _copied_long(field: Field, column: Column) -> pa.Array:
    texts = to_texts(field)
    # a numeric with a precision cannot be infinite (numeric.c, `apply_typmod_special`)
    if pc.any(pc.equal(texts, "NaN")).as_py():
        raise UnsupportedValueError("NaN")
    return texts.cast(_arrow_type(column))


def _copied_short(field: Field, column: Column) -> pa.Array:
    """Convert numerics from Postgres's groups of four decimal digits (numeric.c, `numeric_send`).

    Words of two bytes: number of groups, power of 10,000 of the first, sign, displayed decimals, the groups.
    """
    assert isinstance(field, VariableColumn)
    there, words, at = field.there, field.content.view(">i2"), field.bounds[:-1] // 2

    def word(place: int) -> Integers:
        return words[at + place].astype(np.int64)

    sign = word(_SIGN)
    # NaN and infinity have the highest bit set: a negative word
    check_supported(there, sign >= 0, "NaN or infinity")
    # at a NULL, these bytes belong to the next value
    count = word(_GROUPS) if there is None else np.where(there, word(_GROUPS), 0)
    if ((count + _FIRST) * 2 != field.lengths)[slice(None) if there is None else there].any():
        raise ValueError(f"these are no numerics of {len(field)} rows")
    power = word(_WEIGHT) * _BASE_DIGITS + column.scale
    value = np.zeros(len(field), np.int64)
    for group in range(int(count.max(initial=0))):
        value += _scale(np.where(count > group, word(_FIRST + group), 0), power - group * _BASE_DIGITS)
    # Arrow's decimals have 128 bits: 64 with the value, and 64 with its sign
    both = np.empty((len(value), 2), np.int64)
    np.negative(value, out=value, where=sign == _NEGATIVE)
    both[:, 0], both[:, 1] = value, value >> 63
    return to_array(_arrow_type(column), there, both, len(value))


def _scale(group: Integers, power: Integers) -> Integers:
    """Multiply groups of digits by powers of ten; for a negative power, the cut digits are 0 by the column's scale."""
    least = int(power.min(initial=0))
    raised = group * _POWERS[np.clip(power, 0, LONGEST_WHOLE)]
    return raised if least >= 0 else raised // _POWERS[np.clip(-power, 0, LONGEST_WHOLE)]


def _of(column: Column) -> PostgresType:
    found = replace(
        DECIMAL,
        arrow=_arrow_type(column),
        key=_key_form(_ARROWS_BYTES // 2 if column.precision <= LONGEST_WHOLE else _ARROWS_BYTES),
    )
    if column.type == MONEY:
        # money's own text depends on the locale
        return replace(found, is_sent_whole=False, wider=(), selected="{}::numeric::text", exact="exact")
    if column.chosen:
        # Postgres has no bounds for its values, on which the other ways rely
        wider = ("a wider decimal", *found.wider)
        return replace(found, wider=wider, from_copy=lambda field, of: to_decimals(to_texts(field), of), exact=_CHOSEN)
    return replace(found, selected="{}", from_copy=_copied_short) if column.precision <= LONGEST_WHOLE else found


def _of_numeric(column: Column) -> PostgresType:
    chosen = Meaning("is followed as text (source.column_types)", AS_NUMBERS, AS_DECIMAL)
    return replace(NUMERIC, meaning=chosen) if column.chosen else NUMERIC


NUMERIC: Final = replace(
    SHORT_TEXT,
    kind=Kind.NUMERIC,
    is_out_of_line=True,
    from_log=read_numerics,
    # as doubles they are sorted (a scaled_float has at most 18 digits), and their exact value is under `.exact`
    index={"type": "double", "ignore_malformed": True, "fields": {"exact": KEYWORD}},
    meaning=Meaning("is a numeric without a precision, text in the lake", AS_NUMBERS, AS_DECIMAL),
    exact="exact, all digits, NaN and infinities too",
    lines={
        "any other numeric": Column("", Kind.NUMERIC),
        "by choice as text: numeric": Column("", Kind.NUMERIC, chosen="text"),
    },
    of=_of_numeric,
)
_CHOSEN: Final = "exact; NaN, infinity, and more digits than p and s have are refused, and nothing is rounded"
# a bigint, and `sessions.py` sets lc_monetary=C, with two digits behind the point
MONEY_COLUMN: Final = Column("", Kind.DECIMAL, 19, 2, type=MONEY)
_LARGEST: Final = Column("", Kind.DECIMAL, MAX_DECIMAL_DIGITS)
DECIMAL: Final = PostgresType(
    Kind.DECIMAL,
    is_out_of_line=True,
    wider=("text",),
    arrow=_arrow_type(_LARGEST),
    sent_as=str,
    from_log=_read,
    from_text=_from_text,
    selected=AS_TEXT,
    from_copy=_copied_long,
    to_json=_to_json,
    index=NUMERIC.index,
    exact="exact; NaN is refused, but as text or double",
    lines={
        "numeric(p,s), p ≤ 38, 0 ≤ s ≤ p": _LARGEST,
        MONEY: MONEY_COLUMN,
        "by choice as decimal(p,s): numeric, and arrays of it": replace(_LARGEST, chosen="decimal"),
    },
    of=_of,
)

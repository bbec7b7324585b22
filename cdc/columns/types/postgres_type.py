"""The record of a type: all that the toolkit knows of one kind of column. A new type is one file with one such record.

`registry.py` has all records, and finds that of a column (`type_of`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.types.copied_fields import Field
from cdc.columns.types.text_meaning import Meaning
from cdc.core.table import Column, Kind

Read = Callable[[Sequence[Any], Column], pa.Array]
"""Converts values; raises UnsupportedValueError for one that followers cannot hold, ValueError for what is no value."""
Bytes = npt.NDArray[np.uint8]

AS_TEXT: Final = "{}::text"
KEYWORD: Final[Mapping[str, Any]] = {"type": "keyword", "ignore_above": 1024}
"""Texts up to this length can be found in an index by their exact value; the limit of Lucene is 32,766 bytes."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The bytes of values in a key, big-endian, a row for each (on disk in key indexes)."""

    width: int
    to_bytes: Callable[[pa.Array], Bytes]


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A kind of column, in every form.

    In Postgres: `names` in pg_catalog, and those of `extensions`; values of types `compared_otherwise` may be equal
    though their texts differ. `has_name`: the kind alone does not say which type it is. `is_out_of_line`: values may be
    stored so (manual, "TOAST"). `wider`: choices of `source.column_types` by which followers hold more of its values.

    In Debezium's JSON: `sent_as` is the Python type for msgspec. `is_sent_whole`: all values are sent without our
    converter (`connect/plugin/PostgresText.java`). `from_text` reads Postgres's own text.

    In a binary COPY: the SELECT expression of a column `{}`, and the width of its values in bytes (0: it varies).

    In followers: `to_json` writes values of a document, and leaves null what is null; `to_index` those of a document of
    an index, where they differ. `key`: None if the width varies.
    `index` is OpenSearch's mapping. `is_comparable`: values are equal in all engines alike; two may round a float's
    digits otherwise, and NaN and two zeros are equal in some only. `meaning`: of what is text in the lake alone.

    In TYPES.md: `exact` bounds the exact values; `lines` has a column for each line beside those of the names.
    `of` makes the record of a column, where it depends on more than the kind.
    """

    kind: Kind
    arrow: pa.DataType
    sent_as: Any
    from_log: Read
    from_text: Read
    from_copy: Callable[[Field, Column], pa.Array]
    to_json: Callable[[pa.Array], pa.Array]
    index: Mapping[str, Any]
    names: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    compared_otherwise: Mapping[str, Meaning] = field(default_factory=dict)
    has_name: bool = False
    is_out_of_line: bool = False
    wider: tuple[str, ...] = ()
    is_sent_whole: bool = True
    selected: LiteralString = "{}"
    copied_width: int = 0
    key: KeyForm | None = None
    is_comparable: bool = True
    meaning: Meaning | None = None
    exact: str = "exact"
    lines: Mapping[str, Column] = field(default_factory=dict)
    of: "Callable[[Column], PostgresType] | None" = None
    to_index: Callable[[pa.Array], pa.Array] | None = None

    def write(
        self, values: pa.Array | pa.ChunkedArray, to_json: Callable[[pa.Array], pa.Array] | None = None
    ) -> pa.Array:
        """Write values as they appear in a document: equal values have equal texts, and null is a word.

        `to_json`: instead of the type's own.
        """
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        # empty, as the elements of empty lists: for no values pc.all and pc.any return null
        if not len(array):
            return pa.array([], pa.string())
        text = (to_json or self.to_json)(array)
        # only here: quoting leaves a null null, and the word null has no quotes
        return pc.fill_null(text, "null") if array.null_count else text


def read_plain(arrow: pa.DataType) -> Read:
    """Make a reader of values that Arrow takes as they are."""
    return lambda values, _: pa.array(values, arrow)


def read_each(one: Callable[[Any], Any], arrow: pa.DataType, stored: pa.DataType | None = None) -> Read:
    """Make a reader that parses value by value, for types without a cast in Arrow."""
    return lambda values, _: pc.cast(
        pa.array([None if value is None else one(value) for value in values], stored or arrow), arrow
    )


def key_of(integers: pa.DataType) -> KeyForm:
    """The form in a key of what Arrow stores as these integers."""
    # no nulls here: numpy would make floats of integers with nulls
    return KeyForm(integers.bit_width // 8, lambda array: _to_big_endian(np.asarray(array.cast(integers))))


def _to_big_endian(numbers: npt.NDArray[Any]) -> Bytes:
    width = numbers.dtype.itemsize
    return np.ascontiguousarray(numbers).byteswap().view(np.uint8).reshape(-1, width)

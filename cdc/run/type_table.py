"""The table of types: for each type of Postgres the types in the followers, and the bounds of exact values."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Final

from cdc.columns.values.arrow_types import arrow_type
from cdc.connect.source.column_types import CITEXT, COMPARED_OTHERWISE, KINDS
from cdc.core.table import MONEY, Column, Kind
from cdc.sinks.lake.delta.schema import delta_type
from cdc.sinks.opensearch.layout import field_mapping
from cdc.views.text_columns.meanings import UseKind, find_meaning

HEAD: Final = ("Postgres", "Delta", "index", "values", "text in views")
_USES: Final[Mapping[UseKind, str]] = {
    UseKind.EQUATED: "=",
    UseKind.LITERAL: "literals",
    UseKind.MATCHED: "LIKE",
    UseKind.ORDERED: "order",
    UseKind.GROUPED: "GROUP BY",
    UseKind.CALCULATED: "arithmetic",
}
EXACT: Final = "exact"
AS_WRITTEN: Final = "exact, as the text that Postgres writes; of regclass and its kin, the name at that time"
BUT_BY_CHOICE: Final = ", but as text"
"""If `source.column_types` says so."""
WITHIN: Final[Mapping[Kind, str]] = {
    Kind.DECIMAL: f"exact; NaN is refused{BUT_BY_CHOICE} or double",
    Kind.NUMERIC: "exact, all digits, NaN and infinities too",
    Kind.DATE: f"exact from 4713 BC to 5874897; infinity is refused{BUT_BY_CHOICE}",
    Kind.TIME: "exact, 24:00 too",
    Kind.TIMESTAMP: f"exact from 4713 BC to the end of 294246; infinity is refused{BUT_BY_CHOICE}",
    Kind.TIMESTAMPTZ: f"exact from 4713 BC to the end of 294246, in UTC; infinity is refused{BUT_BY_CHOICE}",
    Kind.JSON: "exact, as its text",
    Kind.INTERVAL: f"exact, in ISO 8601; infinity is refused{BUT_BY_CHOICE}",
    Kind.GEOMETRIC: "exact, every double of it",
    Kind.LITERAL: AS_WRITTEN,
}
"""The bounds by kind. For other kinds, every value is exact."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type of Postgres, its Delta type, its field type in the index, and the bounds of exact values.

    `texts`: what a view does with it as with a text, and so otherwise than Postgres does.
    """

    postgres: str
    delta: str
    search: str
    exact: str
    texts: str = ""


def describe_types() -> list[TypeRow]:
    """One row per type; the last row is for all others."""
    return [_row(name, column) for name, column in _columns()] + [
        TypeRow(
            "by choice as text: numeric, date, timestamp, timestamptz, interval",
            "string",
            "double for numeric, else keyword",
            "exact, as the text that Postgres writes; infinities, NaN and years up to 294276, too",
            _describe_uses(Column("", Kind.NUMERIC, chosen="text")),
        ),
        TypeRow(
            "by choice as double: numeric",
            "double",
            "double",
            "the nearest double, of two the even one; what would become infinity is refused",
        ),
        TypeRow(
            "by choice as decimal(p,s): numeric, and arrays of it",
            "decimal(p,s)",
            "double",
            "exact; NaN, infinity, and more digits than p and s have are refused, and nothing is rounded",
        ),
        TypeRow(
            *("any of these as an array", "array<…>", "the same", "exact with one dimension that is counted from 1"),
            texts="as its elements",
        ),
        TypeRow("a domain", *["as what it restricts", "the same", "as what it restricts", "as what it restricts"]),
        _row("any other: inet, ranges, composites, hstore, pgvector, PostGIS, …", Column("", Kind.LITERAL)),
    ]


def _columns() -> Iterator[tuple[str, Column]]:
    for name, kind in KINDS.items():
        yield name, Column("", kind, compared_as=name if name in COMPARED_OTHERWISE else "")
    yield "numeric(p,s), p ≤ 38, 0 ≤ s ≤ p", Column("", Kind.DECIMAL, 38, 0)
    yield "any other numeric", Column("", Kind.NUMERIC)
    yield MONEY, Column("", Kind.DECIMAL, 19, 2)
    yield CITEXT, Column("", Kind.TEXT, compared_as=CITEXT)
    yield "an enum", Column("", Kind.ENUM)


def _row(name: str, column: Column) -> TypeRow:
    # 38 stands for any p and s here
    delta = "decimal(p,s)" if column.precision == 38 else str(delta_type(arrow_type(column)))
    # not the bounds of DECIMAL: money has no NaN
    within = EXACT if column.type == MONEY else WITHIN.get(column.kind, EXACT)
    return TypeRow(name, delta, field_mapping(column)["type"], within, _describe_uses(column))


def _describe_uses(column: Column) -> str:
    """The uses in views that take it as text."""
    meaning = find_meaning(column)
    return ", ".join(word for kind, word in _USES.items() if meaning and kind in meaning.uses)


def to_markdown() -> str:
    """Write the rows as a table of Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *map(astuple, describe_types())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)

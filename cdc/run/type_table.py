"""The table of types: for each type of Postgres the types in the followers, and the bounds of exact values."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Final

import pyarrow as pa

from cdc.columns.types.postgres_type import PostgresType
from cdc.columns.types.registry import TYPES, type_of
from cdc.columns.types.text_meaning import UseKind
from cdc.core.table import MAX_DECIMAL_DIGITS, Column
from cdc.sinks.lake.delta.schema import delta_type
from cdc.views.text_columns.meanings import find_meaning

HEAD: Final = ("Postgres", "Delta", "index", "values", "text in views")


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
    """The lines of every type, and what holds for arrays and domains."""
    return [
        *(_row(line, column) for each in TYPES.values() for line, column in _lines(each)),
        TypeRow(
            *("any of these as an array", "array<…>", "the same", "exact with one dimension that is counted from 1"),
            texts="as its elements",
        ),
        TypeRow("a domain", *["as what it restricts", "the same", "as what it restricts", "as what it restricts"]),
    ]


def _lines(each: PostgresType) -> Iterator[tuple[str, Column]]:
    for name in (*each.names, *each.extensions):
        yield name, Column("", each.kind, compared_as=name if name in each.compared_otherwise else "")
    yield from each.lines.items()


def _row(line: str, column: Column) -> TypeRow:
    found = type_of(column)
    # the largest precision stands for any p and s here
    delta = "decimal(p,s)" if column.precision == MAX_DECIMAL_DIGITS else _delta(found.arrow)
    meaning = find_meaning(column)
    uses = ", ".join(use for use in UseKind if meaning and use in meaning.uses)
    return TypeRow(line, delta, TYPES[column.kind].index["type"], found.exact, uses)


def _delta(kind: pa.DataType) -> str:
    return f"array<{_delta(kind.value_type)}>" if pa.types.is_list(kind) else str(delta_type(kind))


def to_markdown() -> str:
    """Write the rows as a table of Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *map(astuple, describe_types())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)

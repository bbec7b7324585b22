"""Conditions of `source.where`: what they may say, and which columns they read."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName

if TYPE_CHECKING:
    from sqlglot import exp


def find_filter_error(text: str) -> str | None:
    """Why a text is no condition of one row, as half a sentence; None if it is one. The source checks the rest."""
    # slow to import, and seldom needed
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        found = _parse(text)
    except SqlglotError:
        return "is no condition in Postgres's SQL"
    # not only of one line: a bracket that closes ours would let in what follows
    if not isinstance(found.this, exp.Paren):
        return "is no condition in Postgres's SQL"
    if "\n" in text or any(node.comments for node in found.walk()):
        return "has a comment or a line break in it: write it as one line"
    forbidden = (exp.Query, exp.AggFunc, exp.Window, exp.Parameter, exp.Placeholder, exp.Star)
    if any(isinstance(node, forbidden) for node in found.walk()):
        return "has more than the row's own columns in it; Postgres takes no subqueries or aggregates here"
    if any(column.table for column in found.find_all(exp.Column)):
        return "names columns with a table; write the column alone"
    return None if list_filter_columns(text) else "names no column"


@cache
def list_filter_columns(text: str) -> Sequence[str]:
    """The names of the columns that a condition reads, as Postgres has them."""
    from sqlglot import exp

    names = (column.this for column in _parse(text).find_all(exp.Column))
    return [*dict.fromkeys(each.this if each.quoted else each.this.lower() for each in names)]


def find_filter_refusals(
    name: TableName, where: str, columns: Sequence[str], identity: Sequence[str] | None
) -> list[PreconditionError]:
    """Why a condition cannot be that of a table's rows; `identity`: columns of its replica identity, None if all."""
    read = list_filter_columns(where)
    if missing := [column for column in read if column not in columns]:
        what = f"{name}: source.where reads {', '.join(missing)}, which it does not have, or computes"
        return [PreconditionError(what, "correct source.where")]
    if uncovered := [column for column in read if identity is not None and column not in identity]:
        what = f"{name}: source.where reads {', '.join(uncovered)}, which is not in the log with a deleted row"
        remedy = f"ALTER TABLE {name} REPLICA IDENTITY FULL; else Postgres refuses every update of the table"
        return [PreconditionError(what, remedy)]
    return []


@cache
def _parse(text: str) -> "exp.Where":
    import sqlglot
    from sqlglot import exp

    # behind a line break: a comment at the end has to end
    (statement,) = sqlglot.parse(f"SELECT 1 FROM t WHERE ({text}\n)", dialect="postgres")  # noqa: S608
    where = statement.args["where"] if statement else None
    assert isinstance(where, exp.Where)
    return where

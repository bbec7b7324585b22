"""A view's statement as its analysis reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from cdc.core.table import Column, Table, TableName
from cdc.views.statement.entrance.admission import Admission
from cdc.views.statement.tree.nodes import Tree


@dataclass(frozen=True, slots=True)
class Reference:
    """A place of the statement's text that names a table: the first character, and the one behind the last."""

    table: TableName
    start: int
    end: int
    has_alias: bool


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A place of the text where a column's table has a schema: `public.` of `public.orders.id`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is read.

    `text`: as the user wrote it, with `references` to its tables, and `qualifiers` of their columns. `tree`: what it
    means, with common table expressions in their places. `admission`: what in it no view may have, or the analysis
    does not follow.
    """

    text: str
    tree: Tree
    tables: Mapping[TableName, Table]
    references: Sequence[Reference]
    qualifiers: Sequence[Qualifier]
    admission: Admission = field(default_factory=Admission)

    def table(self, alias: str) -> Table:
        """The table that is used under this alias."""
        return self.tables[next(use.table for use in self.tree.uses if use.alias == alias)]

    def column(self, alias: str, name: str) -> Column:
        """A column of the table that is used under this alias."""
        return next(column for column in self.table(alias).columns if column.name.lower() == name.lower())

    @property
    def table_names(self) -> frozenset[TableName]:
        """The tables that the statement reads."""
        return frozenset(use.table for use in self.tree.uses)

    def rename_tables(self, names: Mapping[TableName, str]) -> str:
        """The user's text with other names for the tables. All else stays as it was, character by character."""
        renamed = [(place.start, place.end, _rename(place, names)) for place in self.references]
        return replace_places(self.text, [*renamed, *((place.start, place.end, "") for place in self.qualifiers)])


def replace_places(text: str, places: Sequence[tuple[int, int, str]]) -> str:
    """Put other texts in these places: the first character, the one behind the last, and the text."""
    # from the end, so that earlier places stay where they are
    for start, end, other in sorted(places, reverse=True):
        text = text[:start] + other + text[end:]
    return text


def _rename(place: Reference, names: Mapping[TableName, str]) -> str:
    # columns go on to name the table as before
    alias = "" if place.has_alias else f" AS {quote(place.table.table)}"
    return quote(names[place.table]) + alias


def quote(name: str) -> str:
    """A name as Spark reads it, whatever it has in it."""
    return exp.to_identifier(name, quoted=True).sql(dialect="spark")

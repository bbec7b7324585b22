"""A captured table: its name, its columns and its key, as every part of the pipeline names them."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self


class Kind(StrEnum):
    """What a column's values are, whatever engine holds them."""

    BOOLEAN = "boolean"
    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    REAL = "real"
    DOUBLE = "double"
    DECIMAL = "decimal"
    NUMERIC = "numeric"
    TEXT = "text"
    ENUM = "enum"
    JSON = "json"
    UUID = "uuid"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    OID = "oid"
    INTERVAL = "interval"
    GEOMETRIC = "shape"  # the word that the tables of a lake are written down with, since the first
    LITERAL = "literal"


NUMERIC = "numeric"
"""Postgres's name of a type that is text or DECIMAL to followers, and DOUBLE where that is chosen."""
MONEY = "money"
"""Postgres's name of a type that is a DECIMAL to followers, and is read apart."""


_WITH_UNFIT_VALUES = frozenset({Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL})


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of the source; `str` gives the form that the configuration uses: `schema.table`."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `schema.table`; a name without a schema is one of `public`."""
        schema, dot, table = text.strip().partition(".")
        return cls(schema, table) if dot else cls("public", schema)


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `precision` and `scale` hold for DECIMAL, whose digits are bounded.

    `array`: its values are arrays, of one dimension and counted from 1, of values of this kind. `type`: Postgres's name
    of the type where the kind does not say it: a LITERAL is whatever Postgres writes of it. `number`: by which the
    catalog tells it from one of its name that was there before (pg_attribute, `attnum`); 0 where it is not known.
    `separator`: what stands between the elements of an array in its text (pg_type, `typdelim`: `;` for boxes, `:` for
    PostGIS). `added`: it came while the table was followed, and is null in rows and messages from before. `chosen`:
    what it is followed as by the user's choice (`source.column_types`), where its own type would be another kind.
    """

    name: str
    kind: Kind
    precision: int = 0
    scale: int = 0
    array: bool = False
    type: str = ""
    number: int = field(default=0, compare=False)
    added: bool = field(default=False, compare=False)
    separator: str = ","
    chosen: str = ""

    @property
    def element(self) -> "Column":
        """The column that an array's elements would make."""
        return replace(self, array=False)

    def as_json(self) -> dict[str, Any]:
        """The column as JSON values, those that are as usual left out."""
        found = {"name": self.name, "kind": self.kind.value, "precision": self.precision, "scale": self.scale}
        usual = {"array": False, "type": "", "number": 0, "added": False, "separator": ",", "chosen": ""}
        return found | {name: value for name in usual if (value := getattr(self, name)) != usual[name]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**{**value, "kind": Kind(value["kind"])})


def may_be_text(column: Column) -> bool:
    """Has its type values that no follower holds, but as text (`source.column_types`)?"""
    return column.kind in _WITH_UNFIT_VALUES and column.type != MONEY and not column.array


@dataclass(frozen=True, slots=True)
class Table:
    """A table as captured: columns in the source's order, and the primary key's column names in the key's."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    def as_json(self) -> dict[str, Any]:
        """The table as JSON values; `from_json` reads it back."""
        return {
            "schema": self.name.schema,
            "table": self.name.table,
            "key": list(self.key),
            "columns": [column.as_json() for column in self.columns],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        columns = tuple(map(Column.from_json, value["columns"]))
        return cls(TableName(value["schema"], value["table"]), columns, tuple(value["key"]))

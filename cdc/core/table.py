"""A captured table: its name, columns and key, the same in every part of the pipeline."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self


class Kind(StrEnum):
    """The kind of a column's values, the same in every engine."""

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
    GEOMETRIC = "geometric"
    LITERAL = "literal"
    VECTOR = "vector"
    GEOMETRY = "geometry"
    STRUCT = "struct"  # of views only


MAX_DECIMAL_DIGITS = 38
"""The most that decimals of Delta, Spark and Arrow (decimal128) have."""
NUMERIC = "numeric"
"""Postgres's type name; followers hold it as text or DECIMAL, or as the user chooses."""
MONEY = "money"
"""Postgres's type name; followers hold it as DECIMAL, and its text has a currency sign."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of the source; `str` is `schema.table`, as in the configuration."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `schema.table`; the default schema is `public`."""
        # at the first dot: a table's name may have further ones, a schema's none
        schema, dot, table = text.strip().partition(".")
        return cls(schema, table) if dot else cls("public", schema)


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `precision`, `scale`: for DECIMAL only. `array`: the values are one-dimensional arrays of this kind, with indexes
    from 1. `type`: Postgres's type name if the kind does not imply it; a LITERAL is the text that Postgres writes.
    `number`: `attnum` of pg_attribute, which tells a column from an earlier one of the same name; 0 if unknown.
    `separator`: between the elements of an array's text (pg_type, `typdelim`: `;` for boxes, `:` for PostGIS).
    `added`: it was added while the table was followed, and is null in older rows and messages. `chosen`: the type that
    the user chose in `source.column_types`; empty if the column is followed as its own type. `fields`: of a STRUCT.
    `compared_as`: Postgres's type name where its texts compare otherwise than text: bpchar, citext. `mask`: what was
    done to its values before they left the source or Kafka Connect (`source.mask`); empty if they are as they were.
    """

    name: str
    kind: Kind
    precision: int = 0
    scale: int = 0
    array: bool = False
    type: str = ""
    # not compared: `diff_tables` asks for it, and what is derived from a table has none
    number: int = field(default=0, compare=False)
    # not compared either: the source's catalog does not know it
    added: bool = field(default=False, compare=False)
    separator: str = ","
    chosen: str = ""
    fields: "tuple[Column, ...]" = ()
    # not compared: followers hold the same texts
    compared_as: str = field(default="", compare=False)
    mask: str = ""

    @property
    def element(self) -> "Column":
        """The column of an array's elements."""
        return replace(self, array=False)

    def as_json(self) -> dict[str, Any]:
        """The column as JSON values; defaults are left out."""
        fields = {"name": self.name, "kind": self.kind.value, "precision": self.precision, "scale": self.scale}
        defaults = {"array": False, "type": "", "number": 0, "added": False, "separator": ",", "chosen": ""}
        defaults |= {"compared_as": "", "mask": ""}
        values = {name: value for name in defaults if (value := getattr(self, name)) != defaults[name]}
        nested = {"fields": [each.as_json() for each in self.fields]} if self.fields else {}
        return fields | values | nested

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        nested = tuple(map(cls.from_json, value.get("fields", ())))
        return cls(**{**value, "kind": Kind(value["kind"]), "fields": nested})


@dataclass(frozen=True, slots=True)
class Table:
    """A captured table: columns in the source's order, names of the key's columns in the key's order (or none).

    `dropped`: columns of the source that followers do not hold (`source.mask`). `where`: the condition of the rows that
    they hold (`source.where`); empty if they hold all.
    """

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    dropped: tuple[Column, ...] = ()
    where: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        by_name = {column.name: column for column in self.columns}
        # in the key's order, which may differ from that of the columns
        return tuple(by_name[name] for name in self.key)

    @property
    def is_masked(self) -> bool:
        """Do followers hold less of its columns than the source?"""
        return bool(self.dropped) or any(column.mask for column in self.columns)

    def as_json(self) -> dict[str, Any]:
        dropped = {"dropped": [column.as_json() for column in self.dropped]} if self.dropped else {}
        return {
            "schema": self.name.schema,
            "table": self.name.table,
            "key": list(self.key),
            "columns": [column.as_json() for column in self.columns],
            **dropped,
            **({"where": self.where} if self.where else {}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        columns = tuple(map(Column.from_json, value["columns"]))
        dropped = tuple(map(Column.from_json, value.get("dropped", ())))
        name = TableName(value["schema"], value["table"])
        return cls(name, columns, tuple(value["key"]), dropped, value.get("where", ""))

"""A captured table: its name, its columns and its key, as every part of the pipeline names them."""

from dataclasses import dataclass
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
    """One column; `precision` and `scale` hold for DECIMAL, whose digits are bounded."""

    name: str
    kind: Kind
    precision: int = 0
    scale: int = 0


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
            "columns": [
                {"name": c.name, "kind": c.kind.value, "precision": c.precision, "scale": c.scale} for c in self.columns
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        columns = tuple(Column(c["name"], Kind(c["kind"]), c["precision"], c["scale"]) for c in value["columns"])
        return cls(TableName(value["schema"], value["table"]), columns, tuple(value["key"]))

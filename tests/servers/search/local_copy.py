"""A copy whose tasks run in this process: what a node decides needs no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc.columns.table_copy import RowsTask
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Table
from tests.support.model import Key, Row


@dataclass(frozen=True, slots=True)
class Answers:
    """What tasks have answered, as a frame gives it."""

    rows: list[Mapping[str, Any]]

    def collect(self) -> list["Answer"]:
        return [Answer(row) for row in self.rows]


class Answer(dict[str, Any]):
    """A row: by name, and as a tuple of its values."""

    def __iter__(self) -> Any:
        return iter(self.values())


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A `TableCopy` of rows in memory."""

    rows: pa.Table

    @classmethod
    def of(cls, table: Table, rows: Mapping[Key, Row]) -> "LocalCopy":
        return cls(pa.Table.from_pylist([dict(row) for row in rows.values()], arrow_schema(table)))

    def map_parts(self, task: RowsTask, schema: str) -> DataFrame:
        rows = [row for batch in task(iter([self.rows])) for row in batch.to_pylist()]
        return cast("DataFrame", Answers(rows))

"""The rows of a pipeline's tables, views and histories, by delta-rs: Spark takes seconds before the first row."""

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from cdc.core.table import TableName
from tests.support.parts.pipelines import Pipeline


def read_rows(pipeline: Pipeline, name: str) -> list[dict[str, Any]]:
    """The rows of a table, view or history as they are there now; moments are in UTC."""
    delta = DeltaTable(pipeline.opened().lake.folder(TableName.parse(name)))
    found = pa.table(QueryBuilder().register("found", delta).execute("SELECT * FROM found").read_all())
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows

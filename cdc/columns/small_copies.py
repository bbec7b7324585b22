"""Small copies, which this process reads before a Spark job would have begun."""

from typing import Any

from cdc.columns.rows.digest import SMALL_BYTES, SMALL_ROWS
from cdc.columns.table_copy import ReadableCopy, RowsTask, TableCopy


def as_small(copy: TableCopy) -> ReadableCopy | None:
    """The copy, if this process can read it, and it is small; None for others."""
    if not isinstance(copy, ReadableCopy) or copy.row_count > SMALL_ROWS or copy.file_bytes > SMALL_BYTES:
        return None
    return copy


def collect_rows(copy: TableCopy, task: RowsTask, schema: str) -> list[tuple[Any, ...]]:
    """Run a task on all parts of a copy, here or on the executors, and return the rows of `schema` that it makes."""
    if (small := as_small(copy)) is not None:
        return [tuple(row.values()) for batch in task(small.read()) for row in batch.to_pylist()]
    return [tuple(row) for row in copy.map_parts(task, schema).collect()]

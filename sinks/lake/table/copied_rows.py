"""A few rows of a data file, from its copy beside the table, or from memory."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from cdc.columns.arrays import Integers
from cdc.columns.types.arrow_types import conform
from cdc.sinks.lake.delta import data_files
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.storage.base import Storage
from cdc.sinks.lake.table.row_files import DamagedRowsError, RowFiles

MIN_COPIED_ROWS: Final = 10_000
"""Rows of a file from which on a copy is made: a smaller one is read whole, and held in memory."""


def read_copied(
    copies: RowFiles, storage: Storage, file: DataFile, numbers: Integers, names: Sequence[str]
) -> pa.Table | None:
    """Read columns of some rows of a file from its copy, or from memory; None while the copy is being made.

    Raises DamagedRowsError once, and the copy is made again.
    """
    held = read_held(copies, storage, file)
    if held is not None:
        return held.select(names).take(pa.array(numbers))
    try:
        found = copies.read(file.path, file.rows, numbers, names)
    except DamagedRowsError:
        _request(copies, storage, file)
        raise
    if found is None:
        _request(copies, storage, file)
    return found


def read_held(copies: RowFiles, storage: Storage, file: DataFile) -> pa.Table | None:
    """All rows of a small file, which are held in memory from now on; None for a larger one."""
    if file.rows >= MIN_COPIED_ROWS:
        return None
    return copies.find_held(file.path, lambda: _concatenate(copies, _read_whole(copies, storage, file.path)))


def _request(copies: RowFiles, storage: Storage, file: DataFile) -> None:
    copies.request(file.path, partial(_read_whole, copies, storage, file.path))


def _concatenate(copies: RowFiles, parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([copies.schema.empty_table(), *parts]).combine_chunks()


def _read_whole(copies: RowFiles, storage: Storage, path: str) -> Iterator[pa.Table]:
    names = copies.derived.names if copies.derived else copies.schema.names
    for part in data_files.read_groups(storage, path, names):
        yield copies.derived.compute(part) if copies.derived else conform(part, copies.schema)

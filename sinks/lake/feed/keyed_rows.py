"""The rows of some keys in a version of a table, found by the keys of all its files: no index is asked, nor trusted."""

import numpy as np
import pyarrow as pa

from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.columns.types.arrow_types import arrow_schema, conform
from cdc.core.table import Table
from cdc.sinks.lake.delta import data_files, deletion_vectors
from cdc.sinks.lake.delta.damage import reading
from cdc.sinks.lake.delta.snapshot import DataFile, Snapshot
from cdc.sinks.lake.storage.base import Storage, map_concurrently


def key_schema(table: Table) -> pa.Schema:
    """The columns of a table's key."""
    schema = arrow_schema(table)
    return pa.schema([schema.field(name) for name in table.key])


def find_rows(storage: Storage, snapshot: Snapshot, table: Table, keys: pa.Table) -> pa.Table:
    """All live rows with one of these keys; of a key, all rows that it has. Raises TableLostError for a lost file."""
    wanted, schema = row_bits(keys, table), arrow_schema(table)

    def find(file: DataFile) -> pa.Table:
        with reading(table.name, file.path):
            own = conform(data_files.read(storage, file.path, table.key), key_schema(table))
            at = np.flatnonzero(are_among(row_bits(own, table), wanted)) if own.num_rows else np.empty(0, np.int64)
            if len(at) and file.vector:
                at = at[~deletion_vectors.deleted_mask(deletion_vectors.read(file.vector, storage), at)]
            if not len(at):
                return schema.empty_table()
            return conform(data_files.read_rows(storage, file.path, table.column_names, at), schema)

    return pa.concat_tables([schema.empty_table(), *map_concurrently(find, [*snapshot.files.values()])])

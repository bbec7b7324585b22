"""Finds the keys of tables that differ in a follower: by looks in this process; where those cannot tell, by Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from psycopg import Connection

from cdc.connect.source.access.connection import inserted_lsn
from cdc.core.containment import SHARED
from cdc.core.errors import CdcError
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.repair.finding import TableFinder
from cdc.run.repair.looking import LookingFinder
from cdc.run.repair.places import Places
from cdc.run.repair.streams import Streams
from cdc.run.tables.resume_check import require_position
from cdc.run.verify.pinned_source import FollowerReader, pin_source
from cdc.run.verify.verify import open_readers

NO_LSN: Final = Lsn(0)


@dataclass(slots=True)
class KeyFinder:
    """`names`: followers, the lake among them, while the streams run. `most`: keys of a table.

    `lsn`: what all of them have been compared at, the last one. `failed`: tables that cannot be repaired, and why.
    """

    pipeline: Pipeline
    connection: Connection[Any]
    streams: Streams
    names: Sequence[str]
    most: int
    lsn: Lsn = NO_LSN
    failed: dict[TableName, CdcError] = field(default_factory=dict)

    def find(self, tables: Sequence[Table]) -> Mapping[Table, pa.Table]:
        """The keys of these tables that differ, and perhaps some that change meanwhile."""
        looking = LookingFinder(self.pipeline, self.connection, self.most, self.streams.patience, self.streams.look)
        found, left = dict[Table, pa.Table](), list[Table]()
        # once for all: one that is stuck would be waited for again with each table
        self._wait_for_all(inserted_lsn(self.connection))
        readers = open_readers(self.pipeline, self.names)
        for table in tables:
            try:
                looked = looking.find(table, self._select(readers, table))
            except SHARED:
                raise
            except CdcError as refusal:
                self.streams.check()
                self.failed[table.name] = refusal
                continue
            if looked is None:
                left.append(table)
            else:
                self.lsn, found[table] = max(self.lsn, looked[0]), looked[1]
        return {**found, **(self._compare(left) if left else {})}

    def _compare(self, tables: Sequence[Table]) -> Mapping[Table, pa.Table]:
        """By Spark."""
        start = require_position(self.pipeline.lake_follower).log_start
        with pin_source(self.pipeline, self.connection, [table.name for table in tables], start, 0) as pinned:
            self.lsn = pinned.lsn
            self._wait_for_all(pinned.lsn)
            self.pipeline.look_again()
            finder, readers = TableFinder(pinned, self.most, self.failed), open_readers(self.pipeline, self.names)
            return {table: finder.find(table, self._select(readers, table)) for table in tables}

    def _wait_for_all(self, lsn: Lsn) -> None:
        for name, reader in open_readers(self.pipeline, self.names).items():
            self.streams.wait_for_lsn(lsn, name, reader.position)

    def _select(self, readers: Mapping[str, FollowerReader], table: Table) -> Mapping[str, FollowerReader]:
        """The readers of the followers that hold the table."""
        return {name: readers[name] for name in Places(self.pipeline, self.names).select(table)}

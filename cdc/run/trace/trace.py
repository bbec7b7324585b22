"""`cdc trace`: one row on its way, from the source to every follower. It only reads, and needs no Spark."""

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from cdc.columns.rows.documents import documents, key_documents
from cdc.core.errors import CdcError, ConfigurationError
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.trace.log_row import find_in_latest, find_in_log
from cdc.run.trace.sighting import PlaceSighting, Row, RowTrace
from cdc.run.trace.source_row import SourceSighting, read_source_row
from cdc.run.trace.view_row import find_in_views
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.layout import open_table
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.lookup import read_document


def trace_row(pipeline: Pipeline, name: TableName, key: list[str], most: int) -> RowTrace:
    """Look for one row everywhere. `most`: of a topic's partition, the newest messages that are read.

    What a place does not answer is its note. Raises ConfigurationError for a table that is not followed or has no key,
    and for what is no key of it; UnreachableError when the source does not answer, which alone can read the key.
    """
    table = find_table(pipeline, name)
    with pipeline.open_source() as connection:
        source = read_source_row(connection, table, key, pipeline.settings.source.mask_key)
    tracing = _Tracing(pipeline, table, source, most)
    return RowTrace(name, [tracing.in_source(), *tracing.elsewhere()])


def find_table(pipeline: Pipeline, name: TableName) -> Table:
    """The followed table of this name, which has a key. Raises ConfigurationError for another one."""
    followed = pipeline.lake_follower.tables.all().get(name)
    if followed is None:
        raise ConfigurationError(f"the lake does not follow {name}", "see `cdc status`")
    if not followed.table.key:
        raise ConfigurationError(f"{name} has no key by which a row could be found", "name one under source.keys")
    return followed.table


class _Tracing:
    """The looks for one row."""

    def __init__(self, pipeline: Pipeline, table: Table, source: SourceSighting, most: int) -> None:
        self._pipeline = pipeline
        self._table = table
        self._source = source
        self._most = most
        self._document = str(key_documents(source.key, table)[0].as_py())

    def in_source(self) -> PlaceSighting:
        row, note = self._source.row, "" if self._source.committed_ms else "commit times are not kept"
        document = json.loads(documents(row, self._table)[0].as_py()) if row is not None else None
        return PlaceSighting(
            "source", row is not None, self._source.lsn, self._source.committed_ms, note if row else "", document
        )

    def elsewhere(self) -> list[PlaceSighting]:
        looks: list[tuple[str, Callable[[], PlaceSighting]]] = [
            ("log", lambda: find_in_log(self._pipeline, self._table, self._source.key, self._most))
        ]
        for name, settings in self._pipeline.settings.followers.items():
            looks.append((name, self._choose_look(name, settings)))
        found = [_look(name, look) for name, look in looks]
        return [*found, *find_in_views(self._pipeline, self._table, self._source.row)]

    def _choose_look(self, name: str, settings: object) -> Callable[[], PlaceSighting]:
        if name == self._pipeline.lake_name:
            return self._in_lake
        if not self._pipeline.settings.holds_table(name, self._table):
            return lambda: PlaceSighting(name, False, note="does not hold the table")
        if isinstance(settings, LatestSettings):
            return lambda: find_in_latest(self._pipeline, name, self._table, self._document, self._most)
        assert isinstance(settings, ClusterSettings)
        return lambda: self._in_index(name, settings)

    def _in_lake(self) -> PlaceSighting:
        place, cut = self._pipeline.lake_name, self._pipeline.table_cuts.last()
        version = cut.versions.get(str(self._table.name)) if cut else None
        if cut is None or version is None:
            return PlaceSighting(place, None, note="no cut has the table yet")
        opened = open_table(self._pipeline.lake, self._table.name, version)
        row = self._scan(opened[0], opened[1]) if opened else None
        return PlaceSighting(place, row is not None, cut.position.lsn, cut.committed_ms, f"version {version}", row)

    def _scan(self, log: DeltaLog, table: Table) -> Row | None:
        storage = self._pipeline.lake.table_storage(table.name)
        for file in log.snapshot.files.values():
            # the key's columns first: a row of few megabytes is read once it is found
            before = 0
            for keys in live_rows(storage, Share(file), table, table.key):
                mask = self._match(keys)
                if pc.any(mask).as_py():
                    place = before + int(pc.index(mask, True).as_py())
                    rows = pa.concat_tables(live_rows(storage, Share(file), table)).slice(place, 1)
                    return dict(json.loads(documents(rows, table)[0].as_py()))
                before += len(keys)
        return None

    def _match(self, keys: pa.Table) -> pa.Array:
        return pc.equal(key_documents(keys, self._table), self._document)

    def _in_index(self, name: str, settings: ClusterSettings) -> PlaceSighting:
        position = self._pipeline.fed[name].position()
        prefix = settings.prefix or self._pipeline.name
        row = read_document(settings, prefix, self._table, pa.Table.from_batches([self._source.key]))
        lsn, expected = position.lsn if position else None, self._expect(name)
        return PlaceSighting(name, row is not None, lsn, row=row, expected=expected)

    def _expect(self, follower: str) -> Row | None:
        """The source's row as the follower holds it, if not as it is."""
        held, row = self._pipeline.fed[follower].held(self._table), self._source.row
        if held is None or row is None:
            return None
        return dict(json.loads(held.write(pa.Table.from_batches([row]), self._table)[0].as_py()))


def _look(place: str, look: Callable[[], PlaceSighting]) -> PlaceSighting:
    try:
        return look()
    except CdcError as error:
        return PlaceSighting(place, None, note=str(error))

"""Keeps the catalog as the lake's newest cut has it, in a thread beside the stream that writes the lake.

Nothing waits for a catalog: one that is down is told, and asked again. One table that it refuses is told, too, and the
others are registered.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Final

from cdc.core.containment import contain_errors
from cdc.core.errors import CdcError, PreconditionError, TableLostError, UnreachableError
from cdc.core.table import Table, TableName
from cdc.core.text.lines import WarningLine
from cdc.run.background import run_in_background
from cdc.run.catalog.comments import TableComments, read_comments, write_comments
from cdc.run.catalog.entry import Catalog, CatalogEntry, Place, choose_place, make_entry
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import CatalogReport, open_reports
from cdc.run.tables.selection import list_followed
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.history.shape import history_name
from cdc.sinks.lake.layout import is_history, open_owned_log, table_of

EVERY_SECONDS: Final = 30.0
STORE_SECONDS: Final = 300.0
"""The same for a lake on an object store, where each look at a table that moved costs requests."""
LIST_EVERY: Final = 20
"""So many looks believe what was registered; the next one asks the catalog, which others may have changed."""


@contextmanager
def open_catalog(pipeline: Pipeline) -> Iterator[Catalog]:
    """The pipeline's catalog. Raises UnreachableError when it does not answer."""
    # here: it needs Java
    from cdc.run.catalog.hive import open_hive

    settings = pipeline.settings.catalog
    assert settings is not None
    own = settings.model_copy(update={"prefix": choose_prefix(pipeline)})
    with open_hive(own, pipeline.name, pipeline.spark, pipeline.state / "catalog") as catalog:
        yield catalog


def choose_prefix(pipeline: Pipeline) -> str:
    """What the names of this pipeline's databases begin with."""
    settings = pipeline.settings.catalog
    return f"{pipeline.name}_" if settings is None or settings.prefix is None else settings.prefix


class CatalogKeeper:
    """Brings a catalog to the newest cut; for one thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._prefix = pipeline, choose_prefix(pipeline)
        self._logs: dict[str, DeltaLog] = {}
        self._versions: dict[str, int] = {}
        self._comments: Mapping[TableName, TableComments] | None = None
        self._known: dict[Place, str] | None = None
        self._looks = 0

    def look(self) -> Mapping[str, str]:
        """Register what is new or has changed, and remove what is gone; returns why tables could not be registered.

        Raises UnreachableError when the catalog, the lake, or a source that nobody has asked yet, does not answer.
        """
        self._looks += 1
        entries, refused = self.list_entries(write_comments)
        if self._known is None or not self._looks % LIST_EVERY or self._differs(entries):
            self._bring(entries, refused)
        return refused

    def _differs(self, entries: Mapping[Place, CatalogEntry]) -> bool:
        return self._known != {place: entry.shape for place, entry in entries.items()}

    def _bring(self, entries: Mapping[Place, CatalogEntry], refused: dict[str, str]) -> None:
        self._known = None
        with open_catalog(self._pipeline) as catalog:
            known = dict(catalog.list_own())
            for place, entry in entries.items():
                if known.get(place) == entry.shape:
                    continue
                with contain_errors(f"catalog: {entry.of}", partial(refused.__setitem__, str(entry.of))):
                    catalog.put(entry)
                    known[place] = entry.shape
            for place in self._find_gone(known.keys() - entries.keys()):
                catalog.remove(place)
                del known[place]
        self._known = known

    def _find_gone(self, places: AbstractSet[Place]) -> AbstractSet[Place]:
        """Those of these places whose table nobody follows any more: one that is only stopped keeps its place."""
        if not places:
            return places
        settings = self._pipeline.settings
        # what it has read of the lake's list of tables may be old
        self._pipeline.look_again()
        names = [*list_followed(self._pipeline), *map(TableName.parse, settings.views)]
        kept = {choose_place(name, self._prefix) for name in names}
        histories = [choose_place(history_name(name), self._prefix) for name in settings.histories]
        return {
            place
            for place in places - kept
            if not any(place[0] == database and place[1].startswith(first) for database, first in histories)
        }

    def list_entries(
        self, keep: Callable[[DeltaLog, TableComments], object] = lambda *_: None
    ) -> tuple[dict[Place, CatalogEntry], dict[str, str]]:
        """What the catalog should have, and why tables cannot be in it. `keep`: called for each table's comments."""
        entries, refused, versions = dict[Place, CatalogEntry](), dict[str, str](), self._list_versions()
        comments = self._read_comments([TableName.parse(name) for name in versions])
        for name, version in versions.items():
            with contain_errors(f"catalog: {name}", partial(refused.__setitem__, name)):
                log, table = self._open(name, version)
                own = comments.get(table.name, TableComments())
                # of a view or a history, Postgres knows nothing
                if not (self._is_view(name) or is_history(log.snapshot)):
                    keep(log, own)
                entry = make_entry(self._pipeline.lake, table, own, self._prefix)
                if other := entries.get(entry.place):
                    raise PreconditionError(f"{other.of} has its place in the catalog, {'.'.join(entry.place)}")
                entries[entry.place] = entry
        for gone in self._logs.keys() - versions.keys():
            del self._logs[gone], self._versions[gone]
        return entries, refused

    def _open(self, name: str, version: int) -> tuple[DeltaLog, Table]:
        """A table's log as it is now, unless the cut has the version of the last look; raises TableLostError."""
        log = self._logs.get(name)
        if log is not None and self._versions[name] != version:
            log.refresh()
        # another table may have taken its place
        if log is None or log.snapshot.version < version:
            log = open_owned_log(self._pipeline.lake, TableName.parse(name))
        table = table_of(log.snapshot) if log else None
        if log is None or table is None:
            raise TableLostError(TableName.parse(name), "it is gone from the lake")
        self._logs[name], self._versions[name] = log, version
        return log, table

    def _list_versions(self) -> dict[str, int]:
        """Versions by name: of the tables' newest cut, and of the views in theirs."""
        pipeline = self._pipeline
        tables, views = pipeline.table_cuts.last(), pipeline.views.cuts.last() if pipeline.settings.views else None
        shown = {name: at for name, at in (views.versions if views else {}).items() if self._is_view(name)}
        return {**(tables.versions if tables else {}), **shown}

    def _is_view(self, name: str) -> bool:
        return self._pipeline.settings.is_view(TableName.parse(name))

    def _read_comments(self, names: list[TableName]) -> Mapping[TableName, TableComments]:
        """The source's comments now; while it does not answer, the last ones."""
        try:
            with self._pipeline.open_source() as connection:
                self._comments = read_comments(connection, names)
        except UnreachableError:
            if self._comments is None:
                raise
        return self._comments


def keep_catalog(pipeline: Pipeline, say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Keep the pipeline's catalog, if it has one, as long as the context lasts."""
    if pipeline.settings.catalog is None:
        return nullcontext()
    # a metastore may take its time to answer, and nobody waits for it
    return run_in_background(partial(_keep, pipeline.reopened(), say), "catalog", 30.0)


def _keep(pipeline: Pipeline, say: Callable[[str], None], ended: threading.Event) -> None:
    keeper, reports, told = CatalogKeeper(pipeline), open_reports(pipeline), ""
    every = EVERY_SECONDS if pipeline.lake.access is None else STORE_SECONDS
    while True:
        report = look(keeper)
        reports.write_catalog(report)
        if (problem := report.describe()) and problem != told:
            say(WarningLine(f"catalog: {problem}"))
        told = problem
        if ended.wait(every):
            return


def look(keeper: CatalogKeeper) -> CatalogReport:
    """One look, whatever becomes of it."""
    try:
        return CatalogReport(at=time.time(), refused=dict(keeper.look()))
    except CdcError as error:
        return CatalogReport(at=time.time(), error=error.what, remedy=error.remedy)
    except Exception as error:  # noqa: BLE001 - the catalog's trouble is no one else's
        return CatalogReport(at=time.time(), error=f"{type(error).__name__}: {error}"[:300], remedy="report it")

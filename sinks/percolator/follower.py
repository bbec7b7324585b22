"""The percolator follower: tells which rows of the tables begin and end to match saved searches, behind the lake."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Protocol

from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from pyspark.sql import DataFrame

from cdc.columns.feed import FedFollower, FeedBatch, FeedRows
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.held import Held
from cdc.columns.rows.row_prints import StoredRows
from cdc.columns.table_copy import TableCopy
from cdc.core.errors import PreconditionError, TableStoppedError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName
from cdc.log.settings import LogSettings
from cdc.sinks.bulkheads import Stops, TableBulkhead
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import Searchable, version_at
from cdc.sinks.owner import Owner
from cdc.sinks.percolator import layout, refusals, search
from cdc.sinks.percolator.evaluation import Evaluation, Outcome
from cdc.sinks.percolator.layout import Topics
from cdc.sinks.percolator.match_log import MatchLog
from cdc.sinks.percolator.matches import Change, Matches
from cdc.sinks.percolator.percolators import Percolators, Refused
from cdc.sinks.percolator.queries import Key, Queries, changed_texts
from cdc.sinks.percolator.records import Moment, Reached
from cdc.sinks.percolator.refusals import Refusals
from cdc.sinks.percolator.settings import PercolatorSettings

Changes = Mapping[TableName, Iterable[FeedRows]]


class RowIndexes(FedFollower, Protocol):
    """Keeps the rows of tables in indexes, of which searches see whole batches."""

    def searchable(self) -> Mapping[TableName, Searchable]:
        """The tables whose whole rows can be searched: as their indexes have them, and by which name."""


class PercolatorFollower:
    """A `FedFollower` that matches rows with the queries in a table, and tells of matches and ends of matches.

    `rows` keeps the queries' table and the matched tables in indexes. A batch goes there first; then changed queries
    are searched for in the indexes of rows, and changed rows are matched with all queries in the percolator indexes.
    What differs from the matches so far is written to Kafka with the position, in one transaction. So a batch may be
    repeated after a crash at any point: what OpenSearch has already is written again with the same version, and nothing
    differs any more from what Kafka has.
    """

    def __init__(self, rows: RowIndexes, settings: PercolatorSettings, log: LogSettings, owner: Owner) -> None:
        self._rows = rows
        self._settings = settings
        self._cluster = Cluster.of(settings)
        prefix = settings.prefix or f"{owner.pipeline}-{owner.follower}"
        self._percolators = Percolators(self._cluster, owner, prefix, settings)
        self._refusals = Refusals(prefix, owner, settings.replicas)
        self._log = MatchLog(log, owner, Topics.of(log, settings, owner.follower))
        self._queries = TableName.parse(settings.queries.table)
        self._matched = [*dict.fromkeys(map(TableName.parse, settings.tables))]
        self._remarks: list[PreconditionError] = []
        self._bulkhead = TableBulkhead(owner.follower, (OpenSearchException, OSError))
        self._failed: dict[TableName, str] = {}

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create topics and indexes; a table that OpenSearch cannot hold stops."""
        self._log.prepare()
        self._rows.prepare(tables)

    def load(self, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Replace the table's rows; the next batch matches all of them, or with the queries' table all tables."""
        affected = self._matched if table.name == self._queries else [table.name]
        # before: after a kill in between, the rows may be other ones than those that were matched
        self._log.open()
        if self._log.reached.current & {*affected}:
            self._log.store(self._log.reached.without(affected))
        # of a batch that was cut off: repeated, it has to reach the new index, too
        if self._rows.position() != self._log.reached.position:
            self._rows.forget_position()
        self._rows.load(table, copy, bookmark)

    def apply(self, batch: FeedBatch, position: Position) -> None:
        """Write rows and queries to their indexes, find out what matches now, and tell the differences."""
        self._log.open()
        before = self._log.reached.position
        if before is not None and before.covers(position):
            return
        self._rows.apply(batch, position)
        reach("percolator.rows")
        with open_client(self._cluster) as client:
            outcomes = self._evaluate(client, batch.tables, version_at(position))

        def find_changes(there: Matches) -> Iterator[Change]:
            return (change for name, each in outcomes.items() for change in there.changes(name, each.found))

        reached = Reached(position, frozenset(outcomes))
        reach("percolator.evaluated")
        self._log.commit(find_changes, reached, Moment(position, batch.committed_ms))
        reach("percolator.committed")

    def _evaluate(self, client: OpenSearch, changes: Changes, version: int) -> dict[TableName, Outcome]:
        """Find out what matches now, in every table that can be matched: its rows and the queries are there."""
        there = self._rows.searchable()
        if self._queries not in there:
            return {}
        queries, column = there[self._queries], self._settings.queries.column
        layout.check_queries(queries.table, column)
        matched = [name for name in self._matched if name in there]
        current = self._select_current(client, there)
        changed = changed_texts(changes.get(self._queries, ()), queries.table, column)
        everything = self._read_queries(self._all_texts(client, queries) if {*matched} - current else {})
        outcomes = dict[TableName, Outcome]()

        def evaluate(name: TableName) -> None:
            evaluation = Evaluation(client, self._percolators, there[name], version, self._log.matches)
            outcomes[name] = (
                evaluation.of_changes(self._read_queries(changed), changes.get(name, ()))
                if name in current
                else evaluation.of_everything(everything)
            )

        # without an outcome a table is not current: its matches stay, and the next batch matches it as a whole
        self._tell(self._bulkhead.collect(evaluate, matched))
        self._keep_refusals(client, queries.table, outcomes, changed, current)
        return outcomes

    def _select_current(self, client: OpenSearch, there: Mapping[TableName, Searchable]) -> frozenset[TableName]:
        """The tables of which only the changes have to be looked at: their matches are known, and their index is."""
        reached, whole = self._log.reached, self._percolators.whole(client)
        current = frozenset(name for name in reached.current & there.keys() if whole.get(name) == there[name].table)
        # before their indexes are made anew: after a kill in between, an index alone does not tell that a query that
        # it takes now, by a new column, was refused before
        if lost := reached.current & there.keys() - current:
            self._log.store(reached.without(lost))
        return current

    def _tell(self, failed: Stops) -> None:
        """Tell of tables that could not be matched, once for each reason."""
        self._remarks += [
            PreconditionError(
                f"{stop.what}; its matches stay as they are", "see the log; the next batch tries it again"
            )
            for name, stop in failed.items()
            if self._failed.get(name) != stop.what
        ]
        self._failed = {name: stop.what for name, stop in failed.items()}

    def _read_queries(self, texts: Mapping[Key, str | None]) -> Queries:
        return Queries.of(texts, has_scripts=self._settings.queries.scripts)

    def _all_texts(self, client: OpenSearch, queries: Searchable) -> dict[Key, str | None]:
        column = self._settings.queries.column
        return {key: row[column] for key, row in search.all_rows(client, queries)}

    def _keep_refusals(
        self,
        client: OpenSearch,
        queries: Table,
        outcomes: Mapping[TableName, Outcome],
        changed: Collection[Key],
        current: Collection[TableName],
    ) -> None:
        refused = {name: each.refused for name, each in outcomes.items()}
        refused = refusals.without_foreign(refused, self._find_foreign(client, refused))
        if changed or any(refused.values()) or len(current) < len(outcomes):
            self._refusals.prepare(client)
            for name, found in refused.items():
                self._refusals.replace(client, name, changed if name in current else None, found)
        self._remarks += refusals.to_remarks(refused, queries, self._refusals.index)

    def _find_foreign(self, client: OpenSearch, refused: Mapping[TableName, Refused]) -> Set[Key]:
        """Of the queries that name a field which a table lacks, those that another table takes, or may take."""
        unmapped = refusals.find_unmapped(refused.values())
        # by their indexes: a table whose queries were tried at an earlier cut has not refused any now
        if len(refused) < len(self._matched) or not unmapped:
            return unmapped
        return {key for name in refused for key in self._percolators.select(client, name, unmapped)}

    def remarks(self) -> Sequence[PreconditionError]:
        """The queries that OpenSearch refuses."""
        # a batch that failed and was repeated has found them twice
        told = {str(each): each for each in self._remarks}
        self._remarks = []
        return [*self._rows.remarks(), *told.values()]

    def position(self) -> Position | None:
        return self._log.read_reached().position

    def furthest(self) -> Position | None:
        """That of the rows: a batch goes to their indexes first."""
        return self._rows.furthest()

    def take_over(self) -> None:
        self._log.open()

    def forget_position(self) -> None:
        """Store no position; the matches that there are stay known, so that none is told again."""
        self._log.open()
        self._log.store(Reached())
        self._rows.forget_position()

    def close(self) -> None:
        self._log.close()
        self._rows.close()

    def bookmarks(self) -> dict[TableName, Bookmark]:
        return self._rows.bookmarks()

    def stops(self) -> Mapping[TableName, TableStoppedError]:
        return self._rows.stops()

    def count(self, table: TableName, *, exact: bool = False) -> int | None:
        return self._rows.count(table, exact=exact)

    def write_count(self, table: TableName) -> int:
        return self._rows.write_count(table)

    def rows(self, table: Table) -> DataFrame:
        """The table's rows as they are matched."""
        return self._rows.rows(table)

    def digest(self, table: Table) -> Digest:
        return self._rows.digest(table)

    def stored(self, table: Table) -> Iterator[StoredRows]:
        return self._rows.stored(table)

    def held(self, table: Table) -> Held | None:
        return self._rows.held(table)

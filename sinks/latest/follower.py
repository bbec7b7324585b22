"""The latest log: one compacted topic a table, behind the lake."""

from collections.abc import Iterable, Iterator, Sequence

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc.columns.feed import FeedBatch, FeedRows
from cdc.columns.names import KafkaColumn
from cdc.columns.rows.digest import Digest
from cdc.columns.rows.documents import describe_key, documents_of, key_documents, portions, rows_of
from cdc.columns.rows.row_prints import StoredRows
from cdc.columns.spark_tasks import require_spark
from cdc.columns.table_copy import ReadableCopy, TableCopy
from cdc.core.errors import HistoryLostError, PreconditionError, TableStoppedError, UnreachableError
from cdc.core.fail_points import reach
from cdc.core.position import Bookmark, Position
from cdc.core.schema_change import has_more_columns
from cdc.core.table import Table, TableName
from cdc.log.clients.topics import Admin, ensure_topic
from cdc.log.clients.transactional_writer import RecordRefusedError, TransactionalWriter
from cdc.log.names import check_distinct, latest_topic
from cdc.log.settings import LogSettings
from cdc.sinks.bulkheads import Stops, TableBulkhead
from cdc.sinks.latest import layout, read, small_copy, topics, write
from cdc.sinks.latest.records import write_portion
from cdc.sinks.latest.state import TableRecord, missing_copy_error, to_stop_error
from cdc.sinks.latest.state_writer import StateWriter
from cdc.sinks.owner import Owner


class _TableFailedError(Exception):
    """Changes of a table cannot be written: the transaction ends, and another one begins without the table."""


class LatestFollower:
    """A `FedFollower` that writes one compacted topic for each table.

    A batch and its position are one Kafka transaction: a consumer of committed records sees both or neither. So are a
    small copy and its bookmark. Executors write a larger copy without a transaction: consumers see it grow, and its
    bookmark is written last.
    """

    def __init__(self, spark: SparkSession | None, log: LogSettings, pipeline: str, name: str) -> None:
        self._spark = spark
        self._log = log
        self._states = StateWriter(log, Owner(pipeline, name))
        self._topics_made_again = 0
        # of the broker or the lake's store, not of a table; librdkafka raises SystemError around its own in a callback
        self._bulkhead = TableBulkhead(name, (KafkaException, SystemError, OSError))

    def close(self) -> None:
        self._states.close()

    def take_over(self) -> None:
        self._states.open()

    def forget_position(self) -> None:
        """Store no position; an older writer is fenced, so it cannot store its own."""
        with self._states.transaction() as writer:
            self._states.write_position(writer, None)
        self._states.state = self._states.state.at(None)

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create the topics and register the tables; registered tables stay as they are.

        Stops a table whose topic cannot be created, or is not ours.
        """
        self._states.open_again()
        stopped = self._states.read().stops
        going = [table for table in tables if table.name not in stopped]
        self._stop(going, self._prepare(going))

    def _prepare(self, tables: Sequence[Table], *, look: bool = False) -> dict[TableName, TableStoppedError]:
        """Prepare the tables; returns the stops. `look`: check the topics even if they are known."""
        state, stops = self._states.read(), dict[TableName, TableStoppedError]()
        check_distinct(latest_topic, self._log.prefix, [*state.tables, *(table.name for table in tables)])
        # a writer has looked before: topics cost an admin connection, and `prepare` comes with every batch
        known = self._states.has_writer and all(state.has_topic(table.name) and table.key for table in tables)
        if look or not known:
            made = list[Table]()

            def make(table: Table) -> None:
                try:
                    if topics.make_of(admin, self._log, table, is_ours=state.has_topic(table.name)):
                        made.append(table)
                except PreconditionError as refused:
                    raise to_stop_error(table.name, refused) from refused

            with Admin(self._log) as admin:
                ensure_topic(admin, layout.topic_of_positions(self._log))
                stops = self._bulkhead.collect(make, tables)
            if made:
                self._topics_made_again += any(state.has_topic(table.name) for table in made)
                self._states.register([TableRecord(table) for table in made])
        self._add_columns([table for table in tables if table.name not in stops])
        return stops

    def _add_columns(self, tables: Sequence[Table]) -> None:
        """Register new columns, which are null in older rows."""
        known = self._states.read().tables
        of = [(table, known[table.name]) for table in tables if table.name in known]
        if wider := [TableRecord(table, old.bookmark) for table, old in of if has_more_columns(old.table, table)]:
            self._states.register(wider)

    def load(self, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        """Write the copy, and tombstones for the topic's other keys, so that consumers can go on.

        Stops the table if rows of it are refused.
        """
        self._states.open_again()
        stops = self._prepare([table], look=True)
        self._stop([table], stops or self._bulkhead.collect(lambda each: self._load(each, copy, bookmark), [table]))

    def _load(self, table: Table, copy: TableCopy, bookmark: Bookmark) -> None:
        # keep the stop until the copy is complete
        self._states.register([TableRecord(table, stop=self._states.read().stops.get(table.name))])
        small = small_copy.find_small(copy, self._log, self._topic(table.name))
        if small is None:
            self._write_by_tasks(table, copy)
        self._finish_load(table, small, bookmark)

    def _finish_load(self, table: Table, small: ReadableCopy | None, bookmark: Bookmark) -> None:
        """Write a small copy, if it is one, and the bookmark, in one transaction."""
        topic, registered = self._topic(table.name), TableRecord(table, bookmark)
        stale = read.live_keys(self._log, topic) if small else set[bytes]()
        try:
            with self._states.transaction() as writer:
                if small:
                    small_copy.write(writer, topic, table, small, stale)
                reach("latest.copy.written")
                self._states.write_record(writer, registered)
        except RecordRefusedError as refused:
            raise self._explain_refusal(refused, [table.name])[table.name] from refused
        except (UnreachableError, PreconditionError) as error:
            if not topics.missing(self._log, [table.name]):
                raise
            raise missing_copy_error(table.name, topic) from error
        self._states.state = self._states.state.having(registered)

    def _write_by_tasks(self, table: Table, copy: TableCopy) -> None:
        texts = documents_of(copy, table)
        records = texts.select(*(F.col(name).cast("binary").alias(name) for name in texts.columns))
        # without a transaction: after a kill between the two records there is no bookmark, and the copy is repeated
        try:
            # a new client id for a new topic: Spark caches producers, and a cached one would write to the deleted topic
            client = f"cdc-copy-{self._topics_made_again}"
            write.write(self._with_tombstones(records, table.name), self._log, self._topic(table.name), client)
        except write.RecordTooLargeError as refused:
            where = describe_key(write.largest_key(records), table.key)
            told = f"{refused.what}: the largest is the one where {where}"
            raise to_stop_error(table.name, PreconditionError(told, refused.remedy)) from refused

    def apply(self, batch: FeedBatch, position: Position) -> None:
        """Write every table of the batch and the position in one transaction, of at most 15 minutes.

        If a record is refused, the transaction fails, and is written again without that record's table.
        """
        self._states.open()
        before = self._states.state.position
        # the same batch may come twice (`Follower`)
        if before is not None and before.covers(position):
            return
        going = [name for name in batch.tables if name not in self._states.state.stops]
        lost = {name: missing_copy_error(name, self._topic(name)) for name in going if not self._is_loaded(name)}
        stops: dict[TableName, TableStoppedError] = {**lost}
        # each round stops the table of a refused record, or those without a topic; the last one commits
        while refused := self._try_write(batch, [name for name in going if name not in stops], stops, position):
            stops |= refused
        reach("latest.committed")
        # after the commit: a failed batch is not applied
        self._states.state = self._states.state.at(position)

    def _try_write(
        self, batch: FeedBatch, going: Sequence[TableName], stops: Stops, position: Position
    ) -> dict[TableName, TableStoppedError]:
        """Write these tables, the stops and the position; if a record is refused, write nothing and return its stop."""
        stopped = self._stop_records(stops)
        try:
            with self._states.transaction() as writer:
                if failed := self._bulkhead.collect(lambda name: self._send(writer, name, batch.tables[name]), going):
                    raise _TableFailedError
                reach("latest.sent")
                for registration in stopped:
                    self._states.write_record(writer, registration)
                self._states.write_position(writer, position)
                reach("latest.position.sent")
        except _TableFailedError:
            return failed
        except RecordRefusedError as refused:
            return self._explain_refusal(refused, going)
        except (UnreachableError, PreconditionError):
            # records to a deleted topic are never answered, or the transaction does not take them
            if not (gone := topics.missing(self._log, going)):
                raise
            return {name: missing_copy_error(name, self._topic(name)) for name in gone}
        for registration in stopped:
            self._states.state = self._states.state.having(registration)
        return {}

    def _explain_refusal(
        self, refused: RecordRefusedError, going: Sequence[TableName]
    ) -> dict[TableName, TableStoppedError]:
        name = next((name for name in going if self._topic(name) == refused.topic), None)
        if name is None:
            raise refused
        # the record may be refused because somebody deleted its topic
        if name in topics.missing(self._log, [name]):
            return {name: missing_copy_error(name, self._topic(name))}
        where = describe_key(refused.key or b"{}", self._states.state.tables[name].table.key)
        return {name: TableStoppedError(f"{name}: {refused.what}, where {where}", refused.remedy)}

    def _is_loaded(self, name: TableName) -> bool:
        found = self._states.state.tables.get(name)
        return found is not None and found.bookmark is not None

    def remarks(self) -> Sequence[PreconditionError]:
        """Nothing: what a topic does not take stops its table."""
        return ()

    def stops(self) -> Stops:
        return self._states.read().stops

    def _stop(self, tables: Sequence[Table], stops: Stops) -> None:
        """Store the stops of these tables, without bookmarks: they need a new copy."""
        if stops:
            has_topic = self._states.read().has_topic
            self._states.register(
                [
                    TableRecord(table, None, stops[table.name], has_topic(table.name))
                    for table in tables
                    if table.name in stops
                ]
            )

    def _stop_records(self, stops: Stops) -> list[TableRecord]:
        """Make the records of tables that stop in a batch; every table of a batch is registered."""
        known = self._states.state.tables
        return [TableRecord(known[name].table, None, stop) for name, stop in stops.items() if name in known]

    def bookmarks(self) -> dict[TableName, Bookmark]:
        tables = self._states.read().tables
        return {name: found.bookmark for name, found in tables.items() if found.bookmark}

    def position(self) -> Position | None:
        return self._states.read().position

    def furthest(self) -> Position | None:
        """The position: a batch that is cut off leaves nothing, as its transaction is aborted."""
        return self.position()

    def count(self, table: TableName, *, exact: bool = False) -> int | None:
        """Count the keys with a row; None unless `exact`, since it takes reading the whole topic."""
        registered = exact and self._states.read().has_topic(table)
        return len(read.live_keys(self._log, self._topic(table))) if registered else None

    def write_count(self, table: TableName) -> int:
        """The number of records written to the table's topic since its creation, compacted ones included."""
        return read.count_records(self._log, self._topic(table))

    def rows(self, table: Table) -> DataFrame:
        """The table's rows as a consumer sees them that reads all committed records until now."""
        newest = read.read_newest(require_spark(self._spark), self._log, self._own_topic(table))
        return rows_of(newest.select(F.col(KafkaColumn.VALUE).cast("string").alias(KafkaColumn.VALUE)), table)

    def digest(self, table: Table) -> Digest:
        return read.digest(require_spark(self._spark), self._log, self._own_topic(table))

    def stored(self, table: Table) -> Iterator[StoredRows]:
        return read.read_stored(self._log, self._own_topic(table))

    def held(self, table: Table) -> None:
        """None: whole rows."""

    def _own_topic(self, table: Table) -> str:
        """The topic of a registered table; raises HistoryLostError for another one."""
        if not self._states.read().has_topic(table.name):
            raise HistoryLostError(f"topic {self._topic(table.name)} is gone", "run `cdc bootstrap` again")
        return self._topic(table.name)

    def _topic(self, name: TableName) -> str:
        return latest_topic(self._log.prefix, name)

    def _with_tombstones(self, records: DataFrame, name: TableName) -> DataFrame:
        topic = self._topic(name)
        if read.is_empty(self._log, topic):
            return records
        latest = read.read_newest(require_spark(self._spark), self._log, topic)
        stale = latest.join(records, KafkaColumn.KEY.value, "left_anti")
        return records.unionByName(stale.select(KafkaColumn.KEY, F.lit(None).cast("binary").alias(KafkaColumn.VALUE)))

    def _send(self, writer: TransactionalWriter, name: TableName, changes: Iterable[FeedRows]) -> None:
        topic, table = self._topic(name), self._states.state.tables[name].table
        for each in changes:
            for rows in portions(each.rows):
                write_portion(writer, topic, table, rows)
            for key in key_documents(each.gone, table).to_pylist():
                writer.write(topic, key.encode(), None)

"""What is asked of the source: its end and slot each time, its tables and the capture's continuity now and then."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from psycopg import Connection

from cdc.connect.source import publication, rights
from cdc.connect.source.access import connection as source
from cdc.connect.source.relation import read_shapes
from cdc.connect.source.slots.slot_health import SourceLook, look_at_source
from cdc.core.errors import CdcError, HistoryLostError
from cdc.core.position import Position
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import LOST, RowCounts, SourceChecks, Trouble
from cdc.run.status.asking.row_counts import count_source_rows
from cdc.run.status.things import Level
from cdc.run.tables import problems
from cdc.run.tables.column_notices import describe_unsent_columns
from cdc.run.tables.resume_check import check_resumable

T = TypeVar("T")
STATEMENT_SECONDS = 30
"""The longest that a statement of a look may take, unless an exact count was asked for."""


class KeptSession:
    """A session on the source that is opened when it is first used, and anew after an error; for one thread."""

    def __init__(self, pipeline: Pipeline, limit_seconds: int = STATEMENT_SECONDS) -> None:
        self._settings = pipeline.settings.source
        self._limit = limit_seconds
        self._connection: Connection | None = None

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Ask in this session, in autocommit. Raises CdcError, also for every error of the server."""
        import psycopg

        connection = self._connection or self._open()
        try:
            return question(connection)
        except psycopg.Error as error:
            self.close()
            raise source.explain(self._settings, connection, error) from error
        except CdcError:
            # it may be one that the question has made of a session's end
            if connection.closed or connection.broken:
                self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        connection = self._connection = source.connect(self._settings)
        # no look waits for a lock, and none goes on when nobody waits for it any more
        connection.execute(f"SET statement_timeout = {1000 * self._limit}")
        return connection


def ask_source(session: KeptSession, pipeline: Pipeline) -> SourceLook:
    return session.ask(partial(look_at_source, source=pipeline.settings.source))


def check_tables(session: KeptSession, pipeline: Pipeline, tables: Sequence[TableName]) -> SourceChecks:
    """Check that the publication is whole, and that the tables are readable, with no children that nobody follows."""
    return session.ask(partial(_check_tables, pipeline=pipeline, tables=tables))


def _check_tables(connection: Connection, pipeline: Pipeline, tables: Sequence[TableName]) -> SourceChecks:
    shapes = read_shapes(connection, tables)
    found = [
        Trouble(f"table.unreadable:{name}", Level.TODAY, error)
        for name, error in rights.find_unreadable(connection, pipeline.settings.source, shapes).items()
    ]
    children = problems.describe_children(pipeline, connection, tables)
    found += [Trouble(f"table.children:{number}", Level.KNOW, error) for number, error in enumerate(children)]
    try:
        publication.check_whole(connection, pipeline.settings.source)
    except CdcError as error:
        found.append(Trouble("capture.publication", Level.NOW, error, "The publication leaves changes out"))
    return SourceChecks(tuple(map(str, describe_unsent_columns(shapes))), found)


def check_history(session: KeptSession, pipeline: Pipeline, position: Position | None) -> SourceChecks:
    """Check that source and log still lead on from the lake's position, if it has one."""
    return session.ask(partial(_check_history, pipeline=pipeline, position=position))


def _check_history(connection: Connection, pipeline: Pipeline, position: Position | None) -> SourceChecks:
    if position is None:
        return SourceChecks()
    try:
        pipeline.lake_follower.cuts.check_capture()
        if upgrade := check_resumable(pipeline):
            headline = "The source was upgraded: `cdc bootstrap` goes on"
            return SourceChecks(findings=[Trouble("capture.upgraded", Level.NOW, upgrade.to_error(), headline)])
    except HistoryLostError as lost:
        headline = "History is lost: only `cdc recapture` helps"
        return SourceChecks(findings=[Trouble(LOST, Level.NOW, lost, headline)])
    return SourceChecks()


def count_rows(
    session: KeptSession,
    tables: Sequence[TableName],
    wheres: Mapping[TableName, str],
    *,
    exact: bool,
    unreadable: Collection[str],
) -> RowCounts:
    """Count the tables' rows, each by itself: one that is locked or refused is a finding, and has no number.

    `wheres`: the conditions of those that are followed (`source.where`).
    """
    rows, found = dict[str, int | None](), list[Trouble]()
    for table in tables:
        name = str(table)
        rows[name] = None
        if name in unreadable:
            continue
        try:
            where = wheres.get(table, "")
            rows[name] = session.ask(partial(count_source_rows, table=table, exact=exact, where=where))
        except CdcError as error:
            found.append(Trouble(f"table.uncounted:{name}", Level.KNOW, error))
    with suppress(CdcError):
        # for the next round, minutes from now: a session less in the source
        session.close()
    return RowCounts(rows, findings=found)

"""Compares one table in followers while source and followers go on."""

from collections.abc import Iterable, Mapping, Sequence

from psycopg import Connection

from cdc.core.containment import contain_errors
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.scratch import open_scratch
from cdc.run.spark.errors import check_spark, translate_errors
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.report import MOVED, Report, Verdict
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.run.verify.rolling.table_looks import TableLooks
from cdc.run.verify.rolling.table_turn import MOST_LOOKS, take_turn


def compare_moving(
    looks: TableLooks, max_keys: int = 0, *, settles: bool = False, most_looks: int = MOST_LOOKS
) -> tuple[Lsn, Mapping[str, Verdict]]:
    """Compare a table in its followers, without keys that change meanwhile, and without Spark.

    `settles`: looks again at such keys until they are compared, or change each time, or were in `most_looks`. Names at
    most `max_keys` keys.

    Raises CdcError when the table cannot be compared now, StoppedError when its pace ends it.
    """
    with translate_errors(f"the comparison of {looks.table.name}"):
        return take_turn(looks.look, max_keys, settles=settles, looks=most_looks)


def settle_moved(
    pipeline: Pipeline,
    connection: Connection,
    report: Report,
    tables: Sequence[Table],
    readers: Mapping[str, FollowerReader],
    max_keys: int,
) -> Report:
    """Give a verdict to the tables that moved while they were compared, as far as their keys rest for a moment; and to
    those whose digests differ, where Spark has not told their keys."""
    found: dict[str, dict[TableName, Verdict]] = {name: {} for name in readers}
    for table in tables:
        moving = {name: readers[name] for name in readers if _is_moved(report, name, table)}
        if not moving:
            continue
        reasons = list[str]()
        with contain_errors(f"the comparison of {table.name}", reasons.append, check_spark):
            looks = TableLooks(pipeline, connection, table, moving, open_scratch(pipeline.state), DutyCycle())
            for name, verdict in compare_moving(looks, max_keys, settles=True)[1].items():
                found[name] |= {table.name: verdict}
        for name in moving if reasons else ():
            found[name][table.name] = _explain(report, name, table, reasons[0])
    return report.with_further(found)


def _explain(report: Report, name: str, table: Table, reason: str) -> Verdict:
    """The verdict on a table that moved, or differed, and could not be compared by its keys."""
    verdict = report.followers[name][table.name]
    error = PreconditionError(f"{table.name} cannot be compared: {reason}", "verify again, or see `cdc status`")
    return verdict if verdict.moved else Verdict(None, stopped=error)


def _is_moved(report: Report, name: str, table: Table) -> bool:
    verdict = report.followers.get(name, {}).get(table.name)
    return verdict is not None and verdict.word == MOVED


def stop_all(names: Iterable[str], reason: CdcError) -> Mapping[str, Verdict]:
    """The verdict that a table was not compared, in each of these followers."""
    return dict.fromkeys(names, Verdict(None, stopped=PreconditionError(reason.what, reason.remedy)))

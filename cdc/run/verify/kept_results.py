"""Keeps the newest result of each table in each follower on this machine, for whoever shows the state.

A file that is lost or damaged costs time only: its tables count as never compared.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import open_reports
from cdc.run.status.things import TableVerdict, Verification, to_time
from cdc.run.verify.report import DIFFERENT, EQUAL, MOVED, Report, Verdict

Verdicts = Mapping[str, TableVerdict]
"""By table."""
NOT_COMPARED = "not compared"
VERIFYING: Final = ".verifying"
"""The lease of whoever verifies for ever; no follower can have this name."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One table's turn in a rolling verification: the verdicts by follower, or why there is none. `every`: seconds."""

    table: TableName
    verdicts: Mapping[str, Verdict]
    every: float
    lsn: Lsn | None = None


def keep_results(pipeline: Pipeline, report: Report, seconds: float) -> None:
    """Keep what a verification of whole followers has found, `seconds` after it began."""
    reports, at = open_reports(pipeline), to_time(time.time())
    known = reports.read_verifications()
    missing = {**report.stopped, **report.incomparable}
    found = dict[str, Verification]()
    for name, verdicts in report.followers.items():
        before = known[name].by_table if name in known else {}
        by_table = {
            str(table): _describe_alone(verdict, at, before.get(str(table))) for table, verdict in verdicts.items()
        }
        by_table |= {
            str(t): _describe_alone(Verdict(None, stopped=e), at, before.get(str(t))) for t, e in missing.items()
        }
        made = summarize(by_table, by_table, at, _find_period(pipeline, known.get(name)))
        found[name] = msgspec.structs.replace(made, seconds=round(seconds, 1), lsn=format_lsn(report.lsn))
    reports.add_verifications(found)


def keep_turn(pipeline: Pipeline, turn: Turn, held: Mapping[str, Collection[str]]) -> None:
    """Keep what a turn has found; `held`: the tables of each of these followers."""
    reports, at = open_reports(pipeline), to_time(time.time())
    known, found = reports.read_verifications(), dict[str, Verification]()
    for name, tables in held.items():
        before = known[name].by_table if name in known else {}
        own = {table: verdict for table, verdict in before.items() if table in tables}
        if name in turn.verdicts:
            key = str(turn.table)
            own[key] = describe(turn.verdicts[name], at, own.get(key))
        lsn = format_lsn(turn.lsn) if turn.lsn is not None else None
        found[name] = msgspec.structs.replace(summarize(own, tables, at, turn.every), lsn=lsn)
    reports.add_verifications(found)


def _find_period(pipeline: Pipeline, known: Verification | None) -> float | None:
    """How often each table is to be compared: None once neither the settings ask for it, nor another process does it,
    so that a rolling verification that was given up is not missed for ever."""
    if known is None:
        return None
    goes_on = pipeline.settings.verify.every_seconds is not None or pipeline.leases.is_held(VERIFYING)
    return known.every_seconds if goes_on else None


def _describe_alone(verdict: Verdict, at: datetime, before: TableVerdict | None) -> TableVerdict:
    """One table's verdict at this time alone: of what was known `before`, only since when it has not been compared."""
    found = describe(verdict, at)
    return found if found.at or before is None else msgspec.structs.replace(found, since=before.waits_since)


def describe(verdict: Verdict, at: datetime, before: TableVerdict | None = None) -> TableVerdict:
    """One table's verdict at this time; without a comparison, what was known `before` stays, with the reason."""
    found = verdict.comparison
    if found is None:
        why = str(verdict.stopped) if verdict.stopped else "it changed while it was compared"
        known = before or TableVerdict(tried=at, verdict=MOVED if verdict.stopped is None else NOT_COMPARED)
        since = None if known.at else known.waits_since
        return msgspec.structs.replace(known, tried=at, since=since, why=why)
    keys = found.different
    return TableVerdict(
        tried=at,
        at=at,
        verdict=DIFFERENT if keys else EQUAL,
        rows=found.source_rows,
        keys=keys,
        moved=verdict.moved,
    )


def summarize(by_table: Verdicts, held: Collection[str], at: datetime, every: float | None) -> Verification:
    """One follower's verification, of what is known of its tables; `held` are all of them."""
    compared = [verdict for verdict in by_table.values() if verdict.at is not None]
    different = sum(verdict.verdict == DIFFERENT for verdict in compared)
    is_whole, is_tried = len(compared) == len(held), len(by_table) == len(held)
    return Verification(
        at=at,
        verdict=DIFFERENT if different else EQUAL if is_whole and not _has_reasons(by_table) else "not all compared",
        tables=len(compared),
        of=len(held),
        rows=sum(verdict.rows for verdict in compared),
        differences=different,
        keys=sum(verdict.keys for verdict in compared),
        moved=sum(verdict.moved for verdict in compared),
        oldest_at=min((v.waits_since for v in by_table.values()), default=None) if is_tried else None,
        every_seconds=every,
        by_table=dict(by_table),
    )


def _has_reasons(by_table: Verdicts) -> bool:
    return any(verdict.why for verdict in by_table.values())

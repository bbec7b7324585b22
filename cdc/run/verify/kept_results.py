"""Keeps the newest result of each follower on this machine, for whoever shows the state."""

import time
from collections.abc import Mapping

from cdc.core.position import format_lsn
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.status.stream_report import open_reports
from cdc.run.status.things import Verification, to_time
from cdc.run.verify.report import Report, Verdict


def keep_results(pipeline: Pipeline, report: Report, seconds: float) -> None:
    """Keep what a verification of whole followers has found, `seconds` after it began."""
    found = {name: _describe(report, verdicts, seconds) for name, verdicts in report.followers.items()}
    open_reports(pipeline).add_verifications(found)


def _describe(report: Report, verdicts: Mapping[TableName, Verdict], seconds: float) -> Verification:
    compared = [verdict.comparison for verdict in verdicts.values() if verdict.comparison is not None]
    different = sum(not each.equal for each in compared)
    missing = len(verdicts) - len(compared) + len(report.stopped) + len(report.incomparable)
    return Verification(
        at=to_time(time.time()),
        verdict="different" if different else "not all compared" if missing else "equal",
        lsn=format_lsn(report.lsn),
        seconds=round(seconds, 1),
        tables=len(compared),
        of=len(compared) + missing,
        rows=sum(each.source_rows for each in compared),
        differences=different,
    )

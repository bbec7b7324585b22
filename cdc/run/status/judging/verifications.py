"""What verifications mean: followers that differ, comparisons that are too old, and the verdict on one table."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from cdc.core.errors import PreconditionError
from cdc.core.text.plural import format_count
from cdc.run.health.result import format_duration
from cdc.run.status.asking.facts import Trouble
from cdc.run.status.things import Level, TableVerdict, Verification

OLD_PERIODS: Final = 2
"""Periods of a rolling verification after which a table's last comparison is too old."""


def find_verification_problems(verifications: Mapping[str, Verification], now: float) -> list[Trouble]:
    """The findings of followers that differed when they were compared last, or have not been for too long."""
    different = [_describe_differences(name, found) for name, found in verifications.items() if found.differences]
    old = [_describe_age(name, found, now) for name, found in verifications.items() if _is_old(found, now)]
    return [*different, *old]


def judge_comparison(verifications: Mapping[str, Verification], table: str) -> tuple[datetime | None, str | None]:
    """When a table was compared, and with which verdict: the worst of all followers, then the oldest."""
    found = [each.by_table[table] for each in verifications.values() if table in each.by_table]
    if not found:
        return None, None
    worst = min(found, key=lambda verdict: (verdict.verdict != "different", verdict.verdict == "equal", _age(verdict)))
    return worst.at, worst.verdict


def _age(verdict: TableVerdict) -> float:
    return verdict.at.timestamp() if verdict.at else 0.0


def _describe_differences(name: str, found: Verification) -> Trouble:
    keys = f" ({format_count(found.keys, 'key')})" if found.keys else ""
    tables = ", ".join(sorted(table for table, verdict in found.by_table.items() if verdict.verdict == "different"))
    where = f": {tables}" if tables else ""
    return Trouble(
        f"verify.differs:{name}",
        Level.NOW,
        PreconditionError(
            f"{name} differed from the source in {format_count(found.differences, 'table')}{keys},"
            f" at {found.lsn}{where}",
            "`cdc repair` puts the keys right; the next `cdc verify` forgets this once all is equal",
        ),
        f"{name} differs from the source",
        "Readers may see other rows there than the source has.",
        since=found.at.timestamp(),
        verb="verify",
        is_failure=False,
    )


def _is_old(found: Verification, now: float) -> bool:
    """Whether a rolling verification has not kept its period for some table; of one that has just begun, nothing is
    known."""
    if found.every_seconds is None:
        return False
    oldest = min((verdict.waits_since for verdict in found.by_table.values()), default=found.at)
    return now - oldest.timestamp() > OLD_PERIODS * found.every_seconds or now - found.at.timestamp() > (
        OLD_PERIODS * found.every_seconds
    )


def _describe_age(name: str, found: Verification, now: float) -> Trouble:
    by_age = sorted(found.by_table.items(), key=lambda item: item[1].waits_since)
    table, oldest = by_age[0] if by_age else ("", TableVerdict(tried=found.at, at=found.at))
    at = oldest.waits_since.timestamp()
    why = f", {oldest.why}" if oldest.why else ""
    age, every = format_duration(now - at), format_duration(found.every_seconds or 0.0)
    last = f"was compared with the source last {age} ago" if oldest.at else f"could not be compared for {age}"
    return Trouble(
        f"verify.old:{name}",
        Level.KNOW,
        PreconditionError(
            f"{table} of {name} {last}, and is to be each {every}{why}",
            "see whether `cdc verify --every`, or `cdc follow` with verify.every_seconds, runs, or raise verify.share;"
            " after the last of them, one `cdc verify` ends this",
        ),
        f"{name} is not compared as often as it is to be",
        "A fault would be found late.",
        since=at,
        verb="verify",
        is_failure=False,
    )

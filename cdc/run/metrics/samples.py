"""The samples of a status document, and of what the streams report; no I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cdc.core.counters import (
    COMMIT_CONFLICTS,
    CONNECTOR_STARTS,
    FAILED,
    GROUPS,
    REJECTED,
    SCHEMA_CHANGES,
    SEARCH,
    STALE,
    UPKEEP_SECONDS,
)
from cdc.run.metrics.catalog import PREFIX
from cdc.run.status.document import Document
from cdc.run.status.judging.rates import percentile
from cdc.run.status.stream_report import StreamReport
from cdc.run.status.things import Level, Slot, State, TableStatus

COUNTED: Final = {
    COMMIT_CONFLICTS: ("commit_conflicts_total", False),
    CONNECTOR_STARTS: ("connector_starts_total", False),
    SCHEMA_CHANGES: ("schema_changes_total", True),
    UPKEEP_SECONDS: ("upkeep_seconds_total", False),
    GROUPS: ("view_recomputed_groups_total", True),
}
"""By the name of a count: its metric, and whether its label is the metric's."""
ZEROS: Final = (
    (COMMIT_CONFLICTS, ""),
    (CONNECTOR_STARTS, ""),
    (UPKEEP_SECONDS, ""),
    *((SCHEMA_CHANGES, kind) for kind in ("widened", "altered")),
    *((SEARCH, kind) for kind in (REJECTED, STALE, FAILED)),
)
NO_ANSWER: Final = (State.SILENT, State.UNKNOWN)


@dataclass(frozen=True, slots=True)
class MetricSample:
    """A value of the metric `name`, for these values of its labels, the pipeline's left out."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


def list_samples(document: Document, now: float) -> Iterator[MetricSample]:
    """The samples of a document at `now`, in seconds since 1970; what is not known has none."""
    for sample in _list_all(document, now):
        if sample[1] is not None:
            yield MetricSample(PREFIX + sample[0], float(sample[1]), sample[2])


_Found = tuple[str, float | None, tuple[str, ...]]


def _list_all(document: Document, now: float) -> Iterator[_Found]:
    yield "build_info", 1, (document.pipeline.version,)
    yield "status_age_seconds", max(now - document.at.timestamp(), 0.0), ()
    yield "status_look_seconds", document.took_ms / 1000, ()
    levels = Counter(problem.level for problem in document.problems.values())
    for level in (Level.NOW, Level.TODAY, Level.KNOW):
        yield "problems", levels[level], (level.value,)
    yield from _list_parts(document)
    yield from _list_followers(document)
    if document.slot is not None:
        yield from _list_slot(document.slot)
    states = Counter(table.state for table in document.tables.values())
    for state, number in states.items():
        yield "tables", number, (state.value,)
    for name, table in document.tables.items():
        yield from _list_table(name, table)
    for (name, reason), number in _count_letters(document).items():
        yield "dead_letters", number, (name, reason)
    yield "slot_dropped", "slot.dropped" in document.problems, ()
    yield from _list_rest(document)


def _list_parts(document: Document) -> Iterator[_Found]:
    for name, part in document.parts.items():
        yield "up", part.state not in NO_ANSWER, (name,)
        yield "part_state", 1, (name, part.state.value)
    yield "heartbeat_age_seconds", document.log_age_seconds, ()
    for kind, size in document.log_bytes.items():
        yield "log_bytes", size, (kind,)
    for place, free in document.disk_free_bytes.items():
        yield "disk_free_bytes", free, (place,)


def _list_followers(document: Document) -> Iterator[_Found]:
    for name, follower in document.followers.items():
        yield "follower_state", 1, (name, follower.state.value)
        yield "follower_lag_seconds", follower.behind_seconds, (name,)
        yield "follower_lag_changes", follower.changes_waiting, (name,)
        yield "follower_lag_bytes", follower.bytes_waiting, (name,)
        yield "log_retention_headroom_seconds", follower.headroom_seconds, (name,)


def _list_slot(slot: Slot) -> Iterator[_Found]:
    yield "slot_active", slot.active, ()
    if slot.wal_status is not None:
        yield "slot_wal_status", 1, (slot.wal_status,)
    yield "slot_retained_bytes", slot.retained_bytes, ()
    yield "slot_unconfirmed_bytes", slot.unconfirmed_bytes, ()
    yield "slot_limit_bytes", slot.limit_bytes, ()
    yield "slot_safe_bytes", slot.safe_bytes, ()
    yield "slot_inactive_seconds", slot.inactive_seconds, ()
    yield "slot_xmin_age_transactions", slot.xmin_age_transactions, ()
    yield "slot_exhaustion_seconds", slot.full_in_seconds, ()
    yield "slot_spilled_bytes_total", slot.spilled_bytes, ()
    yield "slot_growth_bytes_per_second", slot.bytes_per_second, ()
    yield "slot_held_seconds", slot.held_seconds, ()
    yield "connector_restarts_total", slot.restarts, ()


def _list_table(name: str, table: TableStatus) -> Iterator[_Found]:
    yield "table_state", 1, (name, table.state.value)
    yield "table_rows", table.rows, (name,)
    yield "table_changes_per_minute", table.changes_per_minute, (name,)
    yield "changes_waiting", table.changes_waiting, (name,)
    if table.copy is not None:
        yield "copy_rows", table.copy.done_rows, (name,)
        yield "copy_rows_expected", table.copy.all_rows, (name,)
    if table.held_keys:
        yield "held_keys", table.held_keys, (name,)


def _count_letters(document: Document) -> Counter[tuple[str, str]]:
    """The dead letters by table and reason: what stands behind a colon would make a series of each message."""
    counts = Counter[tuple[str, str]]()
    for letters in document.letters.values():
        counts[letters.table, letters.reason.partition(":")[0]] += letters.messages
    return counts


def _list_rest(document: Document) -> Iterator[_Found]:
    if (files := document.lake_files) is not None:
        yield "lake_files", files.files, ()
        yield "lake_small_files", files.small_files, ()
        yield "lake_bytes", files.bytes, ()
        yield "lake_dead_row_ratio", files.dead_row_ratio, ()
    for name, view in document.views.items():
        yield "view_state", 1, (name, view.state.value)
        yield "view_lag_seconds", view.shows_seconds, (name,)
        yield "view_late_events", view.late, (name,)
    for name, verified in document.verifications.items():
        yield "verify_timestamp_seconds", verified.at.timestamp(), (name,)
        yield "verify_oldest_timestamp_seconds", verified.oldest_at.timestamp() if verified.oldest_at else None, (name,)
        yield "verify_period_seconds", verified.every_seconds, (name,)
        yield "verify_differences", verified.differences, (name,)
        yield "verify_differing_keys", verified.keys, (name,)
        yield "verify_moved_keys", verified.moved, (name,)
        yield "verify_tables", verified.tables, (name,)


def list_stream_samples(reports: Mapping[str, StreamReport]) -> Iterator[MetricSample]:
    """The samples of what the streams report of themselves, by follower, and of their processes."""
    yield from _list_counts(reports)
    for follower, report in reports.items():
        own = (follower,)
        for op, number in report.ops.items():
            yield MetricSample(f"{PREFIX}follower_changes_total", float(number), (follower, op))
        yield MetricSample(f"{PREFIX}follower_batches_total", float(report.batches), own)
        yield MetricSample(f"{PREFIX}follower_retries_total", float(report.retries), own)
        for stage, seconds in report.stages.items():
            yield MetricSample(f"{PREFIX}follower_stage_seconds_total", seconds, (follower, stage))
        for name, values in (
            ("batch_changes", [*filter(None, report.batch_changes)]),
            ("batch_seconds", report.batch_seconds),
        ):
            if (median := percentile(values, 50)) is not None:
                yield MetricSample(f"{PREFIX}{name}", median, own)


def _list_counts(reports: Mapping[str, StreamReport]) -> Iterator[MetricSample]:
    """The sums over the processes that follow, each of which tells of itself once."""
    totals = Counter[tuple[str, str]]()
    told = [report.counts for report in reports.values() if report.counts is not None]
    # what has not happened yet is 0: a counter that appears with its first event shows no rise
    totals.update(dict.fromkeys(ZEROS if told else (), 0))
    for counts in told:
        for name, by_label in counts.items():
            totals.update({(name, label): value for label, value in by_label.items()})
    for (name, label), value in totals.items():
        metric, is_labelled = COUNTED[name] if name != SEARCH else (f"search_{label}_total", False)
        yield MetricSample(PREFIX + metric, float(value), (label,) if is_labelled else ())

"""All metrics: names, kinds, labels and meanings, in one place; METRICS.md beside this file is made of it.

Names have base units at their ends, and no metric has another label than these say, the pipeline's name first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "cdc_"
PIPELINE: Final = "pipeline"


class MetricKind(StrEnum):
    """The kinds of Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `labels` come behind the pipeline's. `by_table`: there is one a table, which can be switched off."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    meaning: str

    @property
    def by_table(self) -> bool:
        return "table" in self.labels


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, MetricKind.GAUGE, labels, meaning)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, MetricKind.COUNTER, labels, meaning)


METRICS: Final = (
    _gauge("build_info", "1; the version of the toolkit", "version"),
    _gauge("status_age_seconds", "since the last look at the pipeline; above 15 nobody looks any more"),
    _gauge("status_look_seconds", "how long the last look took"),
    _gauge("problems", "what needs somebody: `now`, `today` or `know`", "level"),
    _gauge("up", "1 if the part answers: source, capture, log, lake", "part"),
    _gauge("part_state", "1 for the part's present state", "part", "state"),
    _gauge("follower_state", "1 for the follower's present state", "follower", "state"),
    Metric(
        PREFIX + "freshness_seconds",
        MetricKind.HISTOGRAM,
        ("follower",),
        "from a commit until readers see it, by both machines' clocks; behind the lake, of each cut's last one",
    ),
    _gauge("follower_lag_seconds", "since the oldest commit that the follower lacks; 0 if it lacks none", "follower"),
    _gauge("follower_lag_changes", "changes in the log that it lacks, of the tables that it holds", "follower"),
    _gauge("follower_lag_bytes", "WAL between its position and the source's end", "follower"),
    _counter(
        "follower_changes_total",
        "changes applied, where the stream counts them: in the lake; those of large runs are `bulk`",
        "follower",
        "op",
    ),
    _counter("follower_batches_total", "batches applied", "follower"),
    _counter("follower_stage_seconds_total", "what the stages of its batches took", "follower", "stage"),
    _counter("follower_retries_total", "starts of its stream after a failure", "follower"),
    _gauge("batch_changes", "median of its newest batches that had any, in the lake", "follower"),
    _gauge("batch_seconds", "median of its newest batches", "follower"),
    _gauge("slot_active", "1 while somebody reads the slot"),
    _gauge("slot_wal_status", "1 for the slot's present status: reserved, extended, unreserved, lost", "state"),
    _gauge("slot_retained_bytes", "WAL that Postgres keeps for the slot"),
    _gauge("slot_unconfirmed_bytes", "WAL behind what Debezium has confirmed"),
    _gauge("slot_limit_bytes", "the nearer of max_slot_wal_keep_size and source.slot_budget; absent without a limit"),
    _gauge("slot_safe_bytes", "what may still be written until that limit; absent without one"),
    _gauge("slot_inactive_seconds", "since somebody read it last; Postgres 17 and later"),
    _gauge("slot_xmin_age_transactions", "how far the slot holds back vacuum in the catalog"),
    _gauge("slot_exhaustion_seconds", "until the slot is full, by the last 30 minutes; absent while it does not fill"),
    _gauge("slot_growth_bytes_per_second", "how fast what is kept for the slot grows, by the last 30 minutes"),
    _gauge("slot_held_seconds", "age of the open transaction that the slot waits for; absent without one"),
    _gauge("slot_dropped", "1 from a drop of the slot by source.slot_budget until all tables are copied again"),
    _counter("slot_spilled_bytes_total", "what decoding has written to disk, above logical_decoding_work_mem"),
    _counter("connector_restarts_total", "new sessions of the connector's task on the slot that looks have seen"),
    _counter("connector_starts_total", "starts of a failed task by `cdc follow`"),
    _gauge(
        "log_bytes",
        "on the brokers' disks, all replicas: changes, transactions, latest, heartbeats, offsets",
        "topic_kind",
    ),
    _gauge(
        "log_retention_headroom_seconds",
        "until the log's retention deletes what the follower lacks; of the lake, which reads the log",
        "follower",
    ),
    _gauge("disk_free_bytes", "where this machine keeps the lake, if in a folder, and its own state", "place"),
    _gauge("heartbeat_age_seconds", "since the newest commit in the log, heartbeats included"),
    _gauge("tables", "how many tables are in this state", "state"),
    _gauge("table_state", "1 for the table's present state", "table", "state"),
    _gauge("table_rows", "rows in the source, counted or estimated", "table"),
    _gauge("table_changes_per_minute", "changes committed in the last minute", "table"),
    _gauge("changes_waiting", "changes of a stopped table in the log", "table"),
    _gauge("copy_rows", "rows copied so far, of a copy under way", "table"),
    _gauge("copy_rows_expected", "rows that it has in all, estimated", "table"),
    _counter("schema_changes_total", "taken in from the log: widened, altered (the table is copied again)", "kind"),
    _gauge("dead_letters", "messages that are not applied", "table", "reason"),
    _gauge("held_keys", "keys whose later changes wait behind dead letters", "table"),
    _gauge("lake_files", "data files of all tables"),
    _gauge("lake_small_files", "of them, those below 8 MiB"),
    _gauge("lake_bytes", "their size"),
    _gauge("lake_dead_row_ratio", "rows that are deleted and still stored, of all that are stored"),
    _counter("commit_conflicts_total", "commits whose version another writer of the lake had taken"),
    _counter("upkeep_seconds_total", "what compaction and vacuum of the lake took"),
    _counter("search_rejected_total", "operations that a cluster did not take for now; they are sent again"),
    _counter("search_stale_total", "operations that met a newer version: they had arrived before"),
    _counter("search_failed_total", "documents that a cluster refused for good: their table stops"),
    _gauge("view_state", "1 for the view's present state", "view", "state"),
    _gauge("view_lag_seconds", "since the oldest commit that the views lack", "view"),
    _counter("view_recomputed_groups_total", "rows of the view that were computed anew", "view"),
    _gauge("view_late_events", "versions that came after their window had closed", "view"),
    _gauge("verify_timestamp_seconds", "when the follower was compared last, since 1970", "follower"),
    _gauge("verify_oldest_timestamp_seconds", "when the table was that has waited longest", "follower"),
    _gauge("verify_period_seconds", "how often each table is to be, where a rolling verification runs", "follower"),
    _gauge("verify_differences", "tables that differed when they were compared last", "follower"),
    _gauge("verify_differing_keys", "keys that differed in them", "follower"),
    _gauge("verify_moved_keys", "keys without a verdict, since they changed during the comparison", "follower"),
    _gauge("verify_tables", "tables that were compared at least once", "follower"),
)
BY_NAME: Final = {metric.name: metric for metric in METRICS}
_HEAD: Final = ("metric", "kind", "labels", "meaning")


def to_markdown() -> str:
    """The metrics as a table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (_HEAD, ("---",) * len(_HEAD), *_rows()))


def _rows() -> Iterator[tuple[str, ...]]:
    for metric in METRICS:
        yield f"`{metric.name}`", metric.kind, ", ".join(metric.labels), metric.meaning

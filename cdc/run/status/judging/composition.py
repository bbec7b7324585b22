"""Puts a document together from the facts of a look and the document before it; no I/O."""

from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version
from typing import Final

from msgspec.structs import replace

from cdc.config.settings import VIEWS, PipelineSettings
from cdc.connect.source.slots.slot import check_wal_kept
from cdc.core.errors import CdcError
from cdc.core.position import format_lsn
from cdc.core.table import TableName
from cdc.core.table_state import Stopped
from cdc.run.status.asking.facts import SOURCE, Facts, FilesLook, StreamLook, Trouble
from cdc.run.status.document import About, Document
from cdc.run.status.judging.measures import Measures
from cdc.run.status.judging.parts import describe_parts, judge_path
from cdc.run.status.judging.problem_list import (
    find_catalog_problems,
    find_follower_problems,
    find_part_problems,
    list_problems,
)
from cdc.run.status.judging.rates import percentile
from cdc.run.status.judging.since import keep_since
from cdc.run.status.judging.slot_problems import find_restart_problems, find_slot_problems
from cdc.run.status.judging.states import (
    Before,
    Judged,
    describe_copy,
    judge_answer,
    judge_follower,
    judge_table,
)
from cdc.run.status.judging.steps import list_steps
from cdc.run.status.judging.verdict import reach_verdict
from cdc.run.status.judging.verifications import find_verification_problems, judge_comparison
from cdc.run.status.judging.view_list import list_views
from cdc.run.status.stream_report import StreamReport
from cdc.run.status.things import (
    BatchTimes,
    FileCounts,
    FollowerStatus,
    Level,
    Slot,
    State,
    TableStatus,
    to_known_time,
    to_time,
)

GOAL_SECONDS: Final = 5.0
"""The goal of freshness: a commit is seen within so long."""
WHAT: Final = {
    "delta": "Delta tables",
    "search": "OpenSearch index",
    "latest": "compacted topics",
    "percolator": "matches",
}


class Composition:
    """One document in the making. `reads`: by view, the tables that it reads."""

    def __init__(
        self,
        settings: PipelineSettings,
        facts: Facts,
        measures: Measures,
        reads: Mapping[str, Collection[str]],
        every_seconds: float,
    ) -> None:
        self._settings = settings
        self._reads = reads
        self._facts = facts
        self._measures = measures
        self._every = every_seconds
        self._lake = settings.delta[0]
        self._path = judge_path(facts, measures, self._lake)
        self._judged = {self._lake: self._path["lake"], **{name: self._judge_fed(name) for name in facts.fed}}

    def compose(self, before: Document | None, seq: int, took_ms: int) -> Document:
        """Make the document that follows `before`."""
        at = to_time(self._facts.now)
        slot = self._measures.describe_slot(self._path["capture"])
        problems = list_problems(self._find_all(slot), slot)
        tables_look, files, checks = self._facts.tables.value, self._facts.files.value, self._facts.checks.value
        parts = describe_parts(self._settings, self._facts, self._measures, self._path)
        followers, tables, views = (
            dict(self._followers()),
            dict(self._tables()),
            dict(list_views(self._settings, self._facts, self._measures, self._reads)),
        )
        if before is not None:
            parts, followers = keep_since(parts, before.parts, at), keep_since(followers, before.followers, at)
            tables, views = keep_since(tables, before.tables, at), keep_since(views, before.views, at)
            problems = {
                key: replace(
                    problem, since=problem.since or (before.problems[key].since if key in before.problems else at)
                )
                for key, problem in problems.items()
            }
        name = self._settings.pipeline.name
        return Document(
            schema=1,
            seq=seq,
            at=at,
            every_seconds=self._every,
            took_ms=took_ms,
            pipeline=About(
                name=name,
                version=version("cdc-toolkit"),
                goal_seconds=GOAL_SECONDS,
                file=self._facts.file.name,
                file_state=self._facts.file.state,
            ),
            verdict=reach_verdict(problems, parts, followers, tables),
            problems=problems,
            parts=parts,
            slot=slot,
            followers=followers,
            tables=tables,
            views=views,
            letters=tables_look.letters if tables_look else {},
            verifications=self._facts.verifications,
            log_age_seconds=_round(self._measures.log_age),
            log_bytes=self._facts.log_bytes.value or {},
            disk_free_bytes=files.free_bytes if files else {},
            lake_files=_describe_files(files) if files else None,
            lake_writes=files.writes if files else None,
            steps=[] if self._facts.half_teardown else list_steps(self._settings, self._path),
            notes=checks.notes if checks else (),
        )

    def _judge_fed(self, name: str) -> Judged:
        answer, stream = self._facts.fed[name], self._facts.streams.get(name, StreamLook())
        if (judged := judge_answer(answer, self._facts.now)) is not None or answer.value is None:
            return judged or Judged(State.UNKNOWN, "not known")
        position = self._measures.position(self._lake)
        before = Before(
            self._path["log"],
            self._measures.is_log_current,
            self._measures.log.newest_at,
            self._path["lake"],
            position.end_offset if position else None,
        )
        return judge_follower(answer.value, stream, self._measures.followers[name].lag, before)

    def _find_all(self, slot: Slot | None) -> Iterator[Trouble]:
        """Everything that is wrong, the path first: of two findings with one text the first is shown."""
        facts, settings = self._facts, self._settings
        if facts.half_teardown is not None:
            # all else that is wrong comes from that
            yield Trouble("teardown.half", Level.NOW, facts.half_teardown, "A teardown is half done")
            return
        names = {
            "source": f"Postgres {settings.source.dbname}",
            "capture": "The capture",
            "log": "Kafka",
            "lake": f"The lake {self._lake}",
        }
        yield from find_part_problems(facts, self._path, names)
        yield from find_slot_problems(slot, self._find_lost(), facts.dropped)
        yield from find_restart_problems(facts)
        for answer in (facts.continuity, facts.checks):
            yield from answer.value.findings if answer.value and answer.error is None else ()
        judged = {**self._judged, **({VIEWS: self._judge_views()} if settings.views else {})}
        yield from find_follower_problems(facts, judged)
        for look in (facts.tables.value, facts.views.value):
            yield from look.findings if look else ()
        yield from find_verification_problems(facts.verifications, facts.now)
        yield from find_catalog_problems(facts.catalog)
        for rows in facts.rows.values():
            yield from rows.value.findings if rows.value else ()
        if facts.file.error is not None:
            yield Trouble("pipeline.file", Level.KNOW, facts.file.error, is_failure=False)

    def _find_lost(self) -> CdcError | None:
        """Why the slot has lost WAL; None if it has not."""
        try:
            check_wal_kept(self._measures.source.slot if self._measures.source else None)
        except CdcError as lost:
            return lost
        return None

    def _judge_views(self) -> Judged:
        stream = self._facts.streams.get(VIEWS, StreamLook())
        lag = self._measures.followers[VIEWS].lag
        if lag is not None and lag.changes and not lag.is_caught_up and lag.seconds > 2 * GOAL_SECONDS:
            return Judged(
                State.BEHIND, f"behind by {lag.seconds:.0f} s", "" if stream.is_followed else "nobody follows"
            )
        return Judged(State.OK, "kept up")

    def _followers(self) -> Iterator[tuple[str, FollowerStatus]]:
        facts, measures = self._facts, self._measures
        for order, (name, settings) in enumerate(self._settings.followers.items(), 1):
            answer = facts.lake if name == self._lake else facts.fed[name]
            judged, measured = self._judged[name], measures.followers[name]
            lag, pace, position = measured.lag, measured.pace, measures.position(name)
            seconds = lag.seconds if lag else None
            stream = facts.streams.get(name, StreamLook())
            yield (
                name,
                replace(
                    FollowerStatus(
                        order=order,
                        kind=settings.kind,
                        what=WHAT[settings.kind],
                        state=judged.state,
                        word=judged.word,
                        since=to_known_time(judged.since),
                        checked_at=to_known_time(answer.checked_at),
                        why=judged.why,
                        behind_seconds=round(seconds, 3) if seconds is not None else None,
                        changes_waiting=lag.changes if lag else None,
                        bytes_waiting=lag.bytes if lag else None,
                        is_caught_up=lag.is_caught_up if lag else None,
                        lsn=format_lsn(position.lsn) if position else None,
                        end_offset=position.end_offset if position else None,
                        trend=pace.trend(seconds or 0.0) if judged.state is State.BEHIND else None,
                        caught_up_in_seconds=pace.caught_up_in(lag.changes) if lag and lag.changes else None,
                        arrives_per_second=_round(pace.arrives),
                        applies_per_second=_round(pace.applies),
                        holds=len(measured.tables),
                    ),
                    **_describe_report(stream.report),
                    hop_seconds=measures.hop_seconds(name),
                    headroom_seconds=measures.headroom_seconds(name),
                ),
            )

    def _tables(self) -> Iterator[tuple[str, TableStatus]]:
        facts, look = self._facts, self._facts.tables.value
        names = [str(table) for table in look.tables] if look else map(str, self._settings.selection.names)
        source = facts.rows[SOURCE].value if SOURCE in facts.rows else None
        for name in names:
            state = look.states.get(name) if look and not facts.tables.is_stale(facts.now) else None
            stop = state if isinstance(state, Stopped) else None
            held = look.held.get(name, (0, 0)) if look else (0, 0)
            counts = {key: rows.value for key, rows in facts.rows.items() if key != SOURCE and rows.value}
            copy = facts.copies.get(name)
            verified_at, verdict = judge_comparison(facts.verifications, name)
            yield (
                name,
                TableStatus(
                    state=judge_table(state, copy),
                    rows=source.rows.get(name) if source else None,
                    rows_in={key: rows.rows[name] for key, rows in counts.items() if name in rows.rows},
                    not_counted=[key for key, rows in counts.items() if name in rows.not_counted],
                    changes_per_minute=round(self._measures.changes_per_minute(name), 1),
                    changed_at=to_known_time(self._measures.log.changed_at.get(name)),
                    holders=look.holders.get(name, ()) if look else (),
                    in_views=[view for view, tables in self._reads.items() if name in tables],
                    held_keys=held[0],
                    letters=held[1],
                    reason=stop.reason if stop else None,
                    lsn=format_lsn(stop.lsn) if stop else None,
                    recopy=stop.recopy if stop else None,
                    changes_waiting=self._measures.changes_waiting(name, stop.lsn) if stop else None,
                    history=TableName.parse(name) in self._settings.histories,
                    copy=describe_copy(copy) if copy else None,
                    verified_at=verified_at,
                    verdict=verdict,
                ),
            )


def _round(value: float | None) -> float | None:
    return round(value, 2) if value is not None else None


def _describe_files(look: FilesLook) -> FileCounts:
    stored = look.rows + look.dead_rows
    dead = round(look.dead_rows / stored, 4) if stored else 0.0
    return FileCounts(files=look.files, small_files=look.small_files, bytes=look.bytes, dead_row_ratio=dead)


def _describe_report(report: StreamReport | None) -> dict[str, object]:
    """What the stream tells of its newest batches."""
    if report is None:
        return {}
    fresh = report.freshness
    batches = max(len(report.batch_seconds), 1)
    return {
        "p50_seconds": _round(percentile(fresh, 50)),
        "p99_seconds": _round(percentile(fresh, 99)),
        "kept_goal_ratio": round(sum(s <= GOAL_SECONDS for s in fresh) / len(fresh), 4) if fresh else None,
        "batch": BatchTimes(
            changes_p50=percentile([*filter(None, report.batch_changes)], 50),
            seconds_p50=_round(percentile(report.batch_seconds, 50)),
            stages={stage: round(seconds / batches, 4) for stage, seconds in report.stages.items()},
        ),
    }

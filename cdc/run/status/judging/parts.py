"""The parts of the path, in words, with the facts that a drawer shows; no I/O."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cdc.config.settings import PipelineSettings
from cdc.core.position import format_lsn
from cdc.run.health.result import format_duration
from cdc.run.status.asking.facts import Facts, StreamLook
from cdc.run.status.asking.questions import LastAnswer
from cdc.run.status.judging.measures import Measures
from cdc.run.status.judging.states import (
    Before,
    Judged,
    find_cause,
    judge_answer,
    judge_capture,
    judge_follower,
    judge_log,
)
from cdc.run.status.things import Fact, Part, State, to_known_time

PATH: Final = ("source", "capture", "log", "lake")


def judge_path(facts: Facts, measures: Measures, lake: str) -> dict[str, Judged]:
    """The states of the parts, in the order of the path. `lake`: its name among the followers."""
    source = judge_answer(facts.source, facts.now) or Judged(State.OK, "answers")
    has_slot = measures.source.slot is not None if measures.source else None
    capture = judge_answer(facts.capture, facts.now)
    if capture is None and facts.capture.value is not None:
        capture = judge_capture(facts.capture.value, has_slot=has_slot, is_log_current=measures.is_log_current)
    capture = capture or Judged(State.UNKNOWN, "not known")
    if source.is_broken and not measures.is_log_current and capture.state is State.OK:
        capture = Judged(State.WAITS, "waits for the source", since=source.since)
    log = judge_answer(facts.log, facts.now) or judge_log(
        measures.log, capture, is_current=measures.is_log_current, age=measures.log_age
    )
    before = Before(log, measures.is_log_current, measures.log.newest_at)
    held = judge_answer(facts.lake, facts.now)
    if held is None and facts.lake.value is not None:
        held = judge_follower(
            facts.lake.value, facts.streams.get(lake, StreamLook()), measures.followers[lake].lag, before
        )
    if held is not None and held.state is State.NEW:
        held = Judged(State.NEW, "empty")
    return dict(zip(PATH, (source, capture, log, held or Judged(State.UNKNOWN, "not known")), strict=True))


def describe_parts(
    settings: PipelineSettings, facts: Facts, measures: Measures, path: Mapping[str, Judged]
) -> dict[str, Part]:
    """The parts, each with its facts; the first broken one is the cause."""
    cause = find_cause(*path.values())
    answers: Mapping[str, LastAnswer[Any]] = {
        "source": facts.source,
        "capture": facts.capture,
        "log": facts.log,
        "lake": facts.lake,
    }
    kinds = {"source": "Postgres", "capture": "Capture", "log": "Log", "lake": "Lake"}
    names = {
        "source": settings.source.dbname,
        "capture": settings.connect.connector,
        "log": "Kafka",
        "lake": settings.delta[0],
    }
    described = {
        "source": _describe_source(settings, facts, measures),
        "capture": _describe_capture(settings, facts),
        "log": _describe_log(measures),
        "lake": _describe_lake(settings, facts, measures),
    }
    way, lake = measures.log.hop_seconds, measures.hop_seconds(settings.delta[0])
    # what comes into the log is there: only capture and lake take time
    hops = {"capture": round(way, 2) if way is not None else None, "lake": lake}
    return {
        part: Part(
            order=order,
            kind=kinds[part],
            name=names[part],
            state=judged.state,
            word=judged.word,
            since=to_known_time(judged.since),
            checked_at=to_known_time(answers[part].checked_at),
            hop_seconds=hops.get(part),
            line=judged.line or _line(part, facts, measures),
            is_cause=cause == order - 1,
            facts=[*described[part]],
        )
        for order, (part, judged) in enumerate(path.items(), 1)
    }


def _line(part: str, facts: Facts, measures: Measures) -> str:
    tables = facts.tables.value
    if part == "source" and measures.source and tables:
        rate = measures.changes_per_second(tables.holders)
        return f"{rate:,.0f} changes a second" if rate >= 1 else f"{60 * rate:,.0f} changes a minute"
    if part == "lake" and tables:
        followed = sum(state.name == "followed" for state in tables.states.values())
        return f"{followed:,} of {len(tables.states):,} tables followed"
    return ""


def _describe_source(settings: PipelineSettings, facts: Facts, measures: Measures) -> Iterator[Fact]:
    look, source = facts.source.value, settings.source
    if look is not None:
        yield Fact(name="version", value=look.version)
        yield Fact(name="at", value=format_lsn(look.lsn), deep=True)
    yield Fact(name="database", value=source.dbname)
    yield Fact(name="reader", value=f"{source.user}, sslmode {source.sslmode}")
    if look is not None and look.oldest is not None and look.oldest.since is not None:
        age = format_duration(look.now - look.oldest.since)
        yield Fact(name="oldest open transaction", value=f"{age}, pid {look.oldest.pid}")
    if measures.log_age is not None:
        yield Fact(name="newest commit in the log", value=f"{format_duration(measures.log_age)} ago")


def _describe_capture(settings: PipelineSettings, facts: Facts) -> Iterator[Fact]:
    look, source = facts.capture.value, facts.source.value
    yield Fact(name="connector", value=settings.connect.connector)
    yield Fact(name="slot", value=settings.source.slot)
    if look is not None and look.connector is not None:
        tasks = ", ".join(look.connector.tasks) or "none"
        yield Fact(name="tasks", value=f"{look.connector.state}, tasks {tasks}")
    if source is not None and source.slot is not None:
        for name, lsn in (("confirmed", source.slot.confirmed_lsn), ("restart", source.slot.restart_lsn)):
            if lsn is not None:
                yield Fact(name=name, value=format_lsn(lsn), deep=True)


def _describe_log(measures: Measures) -> Iterator[Fact]:
    newest = measures.log.newest
    if measures.log_age is not None:
        yield Fact(name="newest commit", value=f"{format_duration(measures.log_age)} ago")
    if newest is not None:
        yield Fact(name="at", value=f"{format_lsn(newest.lsn)}, offset {newest.end_offset:,}", deep=True)


def _describe_lake(settings: PipelineSettings, facts: Facts, measures: Measures) -> Iterator[Fact]:
    yield Fact(name="where", value=settings.delta[1].path)
    position, files = measures.position(settings.delta[0]), facts.files.value
    if position is not None:
        yield Fact(name="at", value=f"{format_lsn(position.lsn)}, END {position.end_offset:,}", deep=True)
    if files is None:
        return
    yield Fact(name="files", value=f"{files.files:,}, of them {files.small_files:,} small")
    if files.rows + files.dead_rows:
        yield Fact(name="dead rows", value=f"{100 * files.dead_rows / (files.rows + files.dead_rows):.1f} %")
    yield Fact(name="stored", value=f"{files.bytes / 2**20:,.0f} MiB", deep=True)
    if files.writes is not None:
        yield Fact(name="commits", value=f"{files.writes.commits:,} an hour")
        if files.writes.requests is not None:
            yield Fact(name="requests", value=f"{files.writes.requests:,} an hour", deep=True)

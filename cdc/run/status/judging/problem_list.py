"""What needs somebody, from the findings and states of a look: one problem each, the most urgent first; no I/O."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from cdc.config.settings import VIEWS
from cdc.core.errors import CdcError, PausedError, PreconditionError
from cdc.core.plural import format_count
from cdc.run.status.asking.facts import LOST, Facts, Trouble
from cdc.run.status.document import StatusProblem, Subject
from cdc.run.status.judging.states import Judged
from cdc.run.status.stream_report import CatalogReport
from cdc.run.status.things import Level, Slot, State, Verification, to_time

AFTER_LOG: Final = ("capture", "lake")
"""Parts that may fail since the log does not answer."""
URGENCY: Final = (Level.NOW, Level.TODAY, Level.KNOW)
URGENT_SECONDS: Final = 1800.0
"""History that is lost sooner than this is a matter of now."""
TODAY_SECONDS: Final = 6 * 3600.0
_COMMAND: Final = re.compile(r"`(cdc [^`]+)`|((?:ALTER|SELECT|GRANT|CREATE) .+)")
_HEADLINES: Final = {
    State.SILENT: "{} does not answer",
    State.STILL: "{} stands still",
    State.FAILED: "{} failed",
    State.PAUSED: "{} is paused",
    State.STOPPED: "{} is stopped",
}


def find_part_problems(facts: Facts, states: Mapping[str, Judged], names: Mapping[str, str]) -> list[Trouble]:
    """The findings of parts that are broken. `names`: how a headline calls each part."""
    errors = {
        "source": facts.source.error,
        "capture": _capture_error(facts),
        "log": facts.log.error,
        "lake": facts.lake.error or facts.tables.error,
    }
    levels, is_log_silent = {"capture": _capture_level(facts, states["log"])}, states["log"].state is State.SILENT
    new = [_describe_new()] if states["capture"].state is State.NEW else []
    return new + [
        Trouble(
            f"part.{states[part].state}:{part}",
            levels.get(part, Level.NOW),
            error,
            _HEADLINES.get(states[part].state, "{} is not well").format(names[part]),
            since=states[part].since,
        )
        # the capture behind a log that does not answer, which is why
        for part, error in sorted(errors.items(), key=lambda item: is_log_silent and item[0] in AFTER_LOG)
        if error is not None and states[part].state is not State.NEW
    ]


def _capture_error(facts: Facts) -> CdcError | None:
    look = facts.capture.value
    error = facts.capture.error or (look.failing.error if look and look.failing else None)
    checks = facts.continuity.value
    lost = next((found.error for found in checks.findings if found.key == LOST), None) if checks else None
    # Debezium may refuse to go on where its offset is behind a slot that somebody has moved
    if error is None or lost is None or look is None or not look.has_failed:
        return error
    return type(lost).from_text(f"{error.what}; {lost.what}", lost.remedy)


def _describe_new() -> Trouble:
    error = PreconditionError("nothing is captured yet", "`cdc bootstrap` makes slot, topics and connector, and copies")
    return Trouble("capture.new", Level.KNOW, error, "Nothing is captured yet")


def _capture_level(facts: Facts, log: Judged) -> Level:
    """A Kafka Connect that does not answer, beside a log that goes on, hurts nobody yet."""
    look = facts.capture.value
    is_silent = look is not None and look.silent is not None and look.failing is not None
    return Level.TODAY if is_silent and log.state is State.OK else Level.NOW


def find_follower_problems(facts: Facts, states: Mapping[str, Judged]) -> list[Trouble]:
    """The findings of followers whose streams have stopped, wait for a repair, or do not answer; views among them."""
    found = []
    for name, stream in facts.streams.items():
        answer = facts.fed.get(name)
        if stream.problem is not None:
            found.append(_stream_finding(name, stream.problem, f"follower {name} does not go on", stream.since))
        elif stream.end is not None:
            event = f"follower {name} has stopped, and nobody follows it"
            found.append(_stream_finding(name, stream.end, event, stream.since))
        if answer is not None and answer.error is not None:
            headline = _HEADLINES.get(states[name].state, "{} is not well").format(name)
            key = f"follower.{states[name].state}:{name}"
            found.append(Trouble(key, Level.NOW, answer.error, headline, since=answer.since))
    return found + [
        Trouble(
            f"follower.behind:{name}",
            Level.TODAY,
            _describe_behind(name, judged),
            f"{name} {_verb(name)} {judged.word}",
            since=judged.since,
            is_failure=False,
        )
        for name, judged in states.items()
        if judged.state is State.BEHIND
    ]


def _verb(name: str) -> str:
    return "are" if name == VIEWS else "is"


def _describe_behind(name: str, judged: Judged) -> PreconditionError:
    # of one that is followed here, it mends itself
    what = f"{name} {_verb(name)} {judged.word}{judged.line and f', {judged.line}'}"
    return PreconditionError(what, "`cdc follow` goes on with it" if judged.line else "")


def _stream_finding(name: str, error: CdcError, event: str, since: float | None) -> Trouble:
    # a pause says of whom it is
    is_paused = isinstance(error, PausedError)
    told = error if is_paused else type(error)(f"{event}: {error.what}", error.remedy)
    headline = f"follower {name} is paused" if is_paused else event
    return Trouble(f"follower.stopped:{name}", Level.NOW, told, headline, since=since)


def find_slot_problems(slot: Slot | None, lost: CdcError | None) -> list[Trouble]:
    """The findings of the slot: WAL that is gone, or that will be gone soon."""
    if lost is not None:
        return [Trouble("slot.lost", Level.NOW, lost, "History is lost: only `cdc recapture` helps")]
    seconds = slot.full_in_seconds if slot else None
    if slot is None or seconds is None or seconds > TODAY_SECONDS:
        return []
    level = Level.NOW if seconds < URGENT_SECONDS else Level.TODAY
    why = f"slot {slot.name} keeps WAL for {slot.held_by}" if slot.held_by else f"slot {slot.name} fills up"
    error = PreconditionError(why, "let the capture go on, end who holds it, or raise max_slot_wal_keep_size")
    hurts = "Then Postgres drops the slot's WAL, and only `cdc recapture` helps: a new copy of all tables."
    return [Trouble("slot.exhaustion", level, error, "The slot is full in {left}", hurts, is_failure=False)]


def find_differences(verifications: Mapping[str, Verification]) -> list[Trouble]:
    """The findings of followers that differed from the source when they were compared last."""
    return [
        Trouble(
            f"verify.differs:{name}",
            Level.NOW,
            PreconditionError(
                f"{name} differed from the source in {format_count(found.differences, 'table')}, at {found.lsn}",
                "`cdc repair` puts the keys right; the next `cdc verify` forgets this once all is equal",
            ),
            f"{name} differs from the source",
            "Readers may see other rows there than the source has.",
            since=found.at.timestamp(),
            verb="verify",
            is_failure=False,
        )
        for name, found in verifications.items()
        if found.differences
    ]


def find_catalog_problems(report: CatalogReport | None) -> list[Trouble]:
    """The findings of a catalog that does not answer, or refuses tables: the lake goes on without it."""
    if report is None or not (error := report.find_problem()):
        return []
    hurts = "Who looks for tables by name finds them as they were; the lake goes on."
    return [Trouble("catalog.behind", Level.TODAY, error, "The catalog is behind", hurts, is_failure=False)]


def list_problems(found: Iterable[Trouble], slot: Slot | None) -> dict[str, StatusProblem]:
    """The problems by their stable ids, the most urgent first; of several with one text, the first."""
    problems = dict[str, StatusProblem]()
    told = set[str]()
    for finding in found:
        # a part that is down answers several questions with one error
        if str(finding.error) not in told:
            told.add(str(finding.error))
            problems[finding.key] = _to_problem(finding, slot)
    ordered = sorted(problems.items(), key=lambda item: (URGENCY.index(item[1].level), not item[1].deadline))
    return {key: replace(problem, order=order) for order, (key, problem) in enumerate(ordered, 1)}


def _to_problem(finding: Trouble, slot: Slot | None) -> StatusProblem:
    error = finding.error
    command = _COMMAND.search(error.remedy)
    cdc, sql = command.groups() if command else (None, None)
    return StatusProblem(
        level=finding.level,
        subject=Subject(kind=finding.kind, name=finding.name),
        what=finding.headline or error.what,
        why=error.what,
        hurts=finding.hurts,
        since=to_time(finding.since) if finding.since is not None else None,
        deadline=slot.full_at if slot and finding.key == "slot.exhaustion" else None,
        remedy=error.remedy,
        command=cdc or sql,
        language="sh" if cdc else "sql" if sql else None,
        verb=finding.verb,
        exit_code=error.exit_code if finding.is_failure else 0,
    )

"""What has happened, from two documents: each change of a state is an event, the newest first; no I/O."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Final

from cdc.run.status.document import Document, StatusEvent
from cdc.run.status.things import FollowerStatus, Level, Part, State, TableStatus, Verification, View

MOST: Final = 200
KEPT: Final = timedelta(hours=24)
MOST_TABLES: Final = 20
"""Tables of one look that are told one by one: a pattern may name thousands."""
_LEVELS: Final = {
    State.SILENT: Level.NOW,
    State.FAILED: Level.NOW,
    State.STILL: Level.NOW,
    State.STOPPED: Level.NOW,
    State.PAUSED: Level.NOW,
    State.BEHIND: Level.TODAY,
}


def add_events(document: Document, before: Document | None) -> list[StatusEvent]:
    """The events of the document: those that lie between, in front of those `before`, of 24 h."""
    if before is None:
        return []
    new = [*_tell_things(document, before), *_tell_tables(document, before), *_tell_others(document, before)]
    since = document.at - KEPT
    return list(islice((event for event in (*new, *before.events) if event.at > since), MOST))


def _tell_things(document: Document, before: Document) -> Iterator[StatusEvent]:
    for kind, now, was in (
        ("part", document.parts, before.parts),
        ("follower", document.followers, before.followers),
        ("view", document.views, before.views),
    ):
        yield from _tell_changes(document, kind, now, was)


def _tell_changes(
    document: Document,
    kind: str,
    now: Mapping[str, Part] | Mapping[str, FollowerStatus] | Mapping[str, View],
    before: Mapping[str, Part] | Mapping[str, FollowerStatus] | Mapping[str, View],
) -> Iterator[StatusEvent]:
    for name, thing in now.items():
        if name in before and before[name].state != thing.state:
            said = name if kind == "part" else f"{kind} {name}"
            # what nobody knew for a moment is no event
            if State.UNKNOWN not in (before[name].state, thing.state):
                yield StatusEvent(
                    at=document.at, kind=kind, text=f"{said}: {thing.word}", level=_LEVELS.get(thing.state)
                )


def _tell_tables(document: Document, before: Document) -> Iterator[StatusEvent]:
    changed = [
        (name, table)
        for name, table in document.tables.items()
        if name not in before.tables or _has_changed(before.tables[name], table)
    ]
    for name, table in changed[:MOST_TABLES]:
        text = f"{name}: {table.state}{(table.reason and f', {table.reason}') or ''}"
        yield StatusEvent(at=document.at, kind="table", text=text, level=_LEVELS.get(table.state))
    if len(changed) > MOST_TABLES:
        yield StatusEvent(
            at=document.at, kind="table", text=f"{len(changed) - MOST_TABLES:,} more tables changed their state"
        )


def _has_changed(before: TableStatus, now: TableStatus) -> bool:
    return before.state != now.state and State.UNKNOWN not in (before.state, now.state)


def _tell_others(document: Document, before: Document) -> Iterator[StatusEvent]:
    for key, letters in document.letters.items():
        if key not in before.letters:
            text = f"{letters.table}: {letters.messages:,} messages not applied ({letters.reason})"
            yield StatusEvent(at=document.at, kind="letters", text=text, level=Level.KNOW)
    for name, verified in document.verifications.items():
        if _tells(verified, before.verifications.get(name)):
            level = None if verified.verdict == "equal" else Level.NOW
            yield StatusEvent(at=document.at, kind="verify", text=f"{name} verified: {verified.verdict}", level=level)


def _tells(now: Verification, before: Verification | None) -> bool:
    """Whether a verification is news; of a rolling one, which ends a turn every now and then, another verdict is."""
    if before is None or before.at == now.at:
        return before is None
    return now.every_seconds is None or now.verdict != before.verdict

"""What a document says when nobody has looked for too long: everything in it is not known, with its age."""

from typing import Any

from msgspec.structs import replace

from cdc.run.health.result import format_duration
from cdc.run.status.asking.questions import hold_seconds
from cdc.run.status.document import Document, StatusVerdict
from cdc.run.status.things import Level, State


def mark_stale(document: Document, now: float) -> Document:
    """The same document while it is young enough at `now`, in seconds since 1970; else one that says how old it is."""
    age = now - document.at.timestamp()
    if age <= hold_seconds(document.every_seconds):
        return document
    word = f"not known; last looked {format_duration(age)} ago"
    verdict = StatusVerdict(
        level=Level.UNKNOWN, title=f"Last known, at {document.at:%H:%M:%S}: {document.verdict.title}"
    )
    return replace(
        document,
        verdict=verdict,
        parts={name: _unknown(part, word) for name, part in document.parts.items()},
        followers={name: _unknown(follower, word) for name, follower in document.followers.items()},
        views={name: _unknown(view, word) for name, view in document.views.items()},
        tables={name: replace(table, state=State.UNKNOWN) for name, table in document.tables.items()},
    )


def _unknown(thing: Any, word: str) -> Any:
    return replace(thing, state=State.UNKNOWN, word=word)

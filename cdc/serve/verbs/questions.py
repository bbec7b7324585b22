"""The questions of the verbs that the command line runs: copy again, verify, replay, fill a view anew.

Each is made of the newest status document and of who works on this machine; nothing is asked of a server, so a dialog
opens at once, whatever is down.
"""

from collections.abc import Callable, Mapping
from shlex import quote
from typing import Final

from cdc.config.settings import VIEWS
from cdc.core.errors import ConfigurationError
from cdc.core.text.plural import format_count
from cdc.run.lease import COPIES, name_rebuild
from cdc.run.pipeline import Pipeline
from cdc.serve.verbs.question import Document, VerbQuestion
from cdc.serve.words import format_bytes, format_span

ROWS_A_SECOND, LEAST_SECONDS = 5800, 20
"""A copy's usual rate on two cores, and what begins and ends it; for a guess that says "about"."""
VERIFIED_A_SECOND = 600_000
BYTES_A_ROW = 120
UP: Final = ("ok", "behind", "waits", "new")
"""States of a part that answers and works."""

Ask = Callable[[Pipeline, Document, str], VerbQuestion]


def ask_recopy(pipeline: Pipeline, document: Document, on: str) -> VerbQuestion:
    table = _find(document, "tables", on)
    rows, reason = table.get("rows"), table.get("reason")
    takes, size, all_rows = "A time that is not known", "", "All"
    if rows is not None:
        takes = f"About {format_span(rows / ROWS_A_SECOND + LEAST_SECONDS)}"
        size, all_rows = f", about {format_bytes(rows * BYTES_A_ROW)} in the lake", f"All {rows:,}"
    warning = f" It stops again if its reason still holds: {reason}." if table.get("state") == "stopped" else ""
    return VerbQuestion(
        f"Copy {on} again?",
        (
            f"{all_rows} rows are read on a snapshot of a slot, beside the running stream.",
            "The changes since then are applied to the copy.",
            "Then it takes the old one's place in every follower. Until then readers see the old rows.",
        ),
        f"{takes}, two connections to the source{size}; the slot keeps the WAL of that time.{warning}",
        "All other tables.",
        f"cdc bootstrap --again {quote(on)}",
        "Copy it again",
        _find_copy_refusal(pipeline, document, table),
    )


def _find_copy_refusal(pipeline: Pipeline, document: Document, table: Document) -> str | None:
    if table.get("state") in {"copying", "joining"}:
        return "It is copied at present."
    for part in ("source", "capture", "lake"):
        found = document["parts"].get(part, {})
        if found.get("state") not in UP:
            return f"{found.get('name', part)}: {found.get('word', 'not known')}. Mend that first."
    return "Another copy runs on this machine." if pipeline.leases.is_held(COPIES) else None


def ask_verify(pipeline: Pipeline, document: Document, on: str) -> VerbQuestion:
    option, named = _name_verified(document, on)
    tables = document.get("tables", {})
    rows = tables[on].get("rows") if on in tables else sum(each.get("rows") or 0 for each in tables.values())
    read = f"about {rows:,} rows" if rows else "every row"
    takes = f" for about {format_span(rows / VERIFIED_A_SECOND + 4)}" if rows else ""
    down = document["parts"].get("source", {}).get("state") not in UP
    return VerbQuestion(
        f"Verify {named} now?",
        (
            "It waits until the follower has everything up to the source's present position.",
            "Then it compares every row by digests.",
        ),
        f"Reads {read} in the source, on two connections,{takes} and as many in the followers; Spark starts for it.",
        "Nothing is written or paused.",
        f"cdc verify{option}",
        "Verify now",
        "The source does not answer. Mend that first." if down else None,
    )


def _name_verified(document: Document, on: str) -> tuple[str, str]:
    if not on:
        return "", "every follower"
    if on in document.get("followers", {}) or on == VIEWS:
        return f" --follower {on}", on
    if on in document.get("tables", {}) or on in document.get("views", {}):
        return f" --table {quote(on)}", on
    raise _unknown(on)


def ask_replay(pipeline: Pipeline, document: Document, on: str) -> VerbQuestion:
    found = [each for each in document.get("letters", {}).values() if each["table"] == on]
    if not found:
        raise _unknown(on)
    messages = format_count(sum(each["messages"] for each in found), "message")
    held = pipeline.leases.is_held(pipeline.lake_name)
    return VerbQuestion(
        f"Replay {messages} of {on}?",
        (
            "The messages are tried again as this version reads them.",
            "What can be read is applied, in the order of the log.",
            "The other followers get the rows with the next cut.",
        ),
        "Some seconds, in which nothing new reaches the lake.",
        "Messages that still cannot be read stay, and hold their keys.",
        f"cdc dead-letters replay --table {quote(on)}",
        "Replay",
        "`cdc follow` writes the lake on this machine: end it first, and start it again after." if held else None,
    )


def ask_rebuild(pipeline: Pipeline, document: Document, on: str) -> VerbQuestion:
    view = _find(document, "views", on)
    held, rows = pipeline.leases.is_held(name_rebuild(VIEWS)), view.get("rows")
    return VerbQuestion(
        f"Fill {on} anew?",
        (
            "Its statement runs over all rows, beside the present ones.",
            "The result is kept up, compared with the statement at one position, and takes their place there.",
        ),
        f"{'All' if rows is None else f'{rows:,}'} rows are computed twice; all views rest for the swap.",
        "Readers see the old rows until then; they are kept as long as the lake keeps its past.",
        f"cdc rebuild {quote(on)}",
        "Fill it anew",
        "Another rebuild of a view runs on this machine." if held else None,
    )


def _find(document: Document, room: str, name: str) -> Document:
    things: Mapping[str, Document] = document.get(room, {})
    if name not in things:
        raise _unknown(name)
    return things[name]


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(f"there is no {name} here", "reload the page")


QUESTIONS: Final[Mapping[str, Ask]] = {
    "recopy": ask_recopy,
    "verify": ask_verify,
    "replay": ask_replay,
    "rebuild": ask_rebuild,
}
"""By verb, as a problem of the document names it."""

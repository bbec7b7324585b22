"""The first HTML: verdict, problems and path are in it, so that they are read before any script runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from cdc.serve import words
from cdc.serve.bundle import bundle_script, bundle_style
from cdc.serve.publisher import Published

STATES: Final = {
    "stopped": ("stopped", "now", 0),
    "failed": ("stopped", "now", 0),
    "still": ("still", "now", 0),
    "silent": ("silent", "now", 0),
    "unknown": ("unknown", "today", 1),
    "behind": ("behind", "today", 1),
    "copying": ("copying", "busy", 2),
    "joining": ("copying", "busy", 3),
    "paused": ("paused", "know", 3),
    "waits": ("waits", "quiet", 3),
    "listed": ("new", "quiet", 4),
    "new": ("new", "quiet", 4),
    "ok": ("ok", "ok", 9),
    "followed": ("ok", "ok", 9),
}
"""By state: its shape, its colour, and how urgent it is (page/states.js)."""
HOPS: Final = {
    **dict.fromkeys(("behind", "unknown"), "today"),
    **dict.fromkeys(("still", "stopped", "failed", "silent"), "now"),
    **dict.fromkeys(("waits", "new", "paused"), "quiet"),
}
LEVELS: Final = {
    "now": ("now", "Now"),
    "today": ("today", "Today"),
    "know": ("know", "To know"),
    "ok": ("ok", "Well"),
    "busy": ("copying", "Copying"),
    "new": ("new", "New"),
    "unknown": ("unknown", "Not known"),
}


SOON: Final = 6 * words.HOUR
"""A slot that is full within so many seconds is told on the path."""


class Page:
    """Renders the page. `verbs`: those that this server takes, none where it only reads."""

    def __init__(self, name: str, verbs: Sequence[str], *, traces: bool = False) -> None:
        self._name = name
        self._verbs = verbs
        self._traces = traces
        environment = Environment(
            loader=PackageLoader("cdc.serve"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        environment.globals |= {"STATES": STATES, "HOPS": HOPS, "LEVELS": LEVELS}
        environment.globals |= {"script": bundle_script().name, "style": bundle_style().name}
        environment.filters |= {"span": words.format_span, "with_code": mark_code}
        self._page, self._door = environment.get_template("page.html"), environment.get_template("door.html")

    def render(self, published: Published | None, now: datetime, *, may_act: bool) -> str:
        """The page over the newest document, or over none before the first look."""
        document = published.document if published else None
        every = document["every_seconds"] if document else 0.0
        state_of = partial(words.state_of, every_seconds=every, now=now)
        return self._page.render(
            name=self._name,
            document=document,
            may_act=may_act,
            verbs=self._verbs,
            traces=self._traces,
            is_old=bool(document) and words.is_old(document["at"], every, now) if document else False,
            state_of=state_of,
            find_worst=lambda views: min(map(state_of, views.values()), key=lambda view: STATES[view["state"]][2]),
            shown_after=find_slowest(document or {}),
            slot_fills_soon=(document or {}).get("slot", {}).get("full_in_seconds", SOON) < SOON,
            fill=partial(words.fill, now=now),
            clock=lambda at, seconds=True: words.format_clock(words.parse_time(at), seconds),
            left=lambda at: max((words.parse_time(at) - now).total_seconds(), 0.0),
            age=lambda at: float(max(round((now - words.parse_time(at)).total_seconds()), 0)),
            by_order=by_order,
        )

    def render_door(self) -> str:
        """The page for those who have not shown the token."""
        return self._door.render(name=self._name)


def mark_code(text: str) -> Markup:
    """A text in which backticks stand around what is typed."""
    pieces = [
        Markup("<code>{}</code>").format(piece) if n % 2 else escape(piece) for n, piece in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


def find_slowest(document: Mapping[str, Any]) -> float | None:
    """The seconds after which every view shows a commit; None where that is not known."""
    known = [view["shows_seconds"] for view in document.get("views", {}).values() if "shows_seconds" in view]
    return max(known, default=None)


def by_order(values: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return sorted((values or {}).items(), key=lambda item: item[1].get("order", 0))

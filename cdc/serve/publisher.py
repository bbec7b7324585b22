"""What all browsers read: the newest status document, encoded once, and the patches that lead to it.

The watch publishes from its thread; streams read in the server's event loop.
"""

import gzip
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from cdc.serve.merge_patch import make_patch
from cdc.serve.words import parse_time

KEPT_PATCHES = 30
Wake = Callable[[], object]


@dataclass(frozen=True)
class Published:
    """A document as it was published. `number` grows by one each time; `heard_at`: by the monotonic clock."""

    run: str
    number: int
    document: Mapping[str, Any]
    heard_at: float

    @property
    def id(self) -> str:
        """Names it among all that this and other runs of a server have published."""
        return f"{self.run}-{self.number}"

    @cached_property
    def json(self) -> bytes:
        return msgspec.json.encode(self.document)

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.json, 5)

    def now(self) -> datetime:
        """Now, by the document's clock: its own time, and what has passed since."""
        return parse_time(self.document["at"]) + timedelta(seconds=time.monotonic() - self.heard_at)


class Publisher:
    """The newest document, and the last patches, for streams that know an earlier one. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = secrets.token_hex(4)
        self._current: Published | None = None
        self._patches: deque[tuple[int, bytes]] = deque(maxlen=KEPT_PATCHES)
        self._wakes: set[Wake] = set()

    @property
    def current(self) -> Published | None:
        """The newest document; None before the first look."""
        return self._current

    def now(self) -> datetime:
        """Now, by the document's clock; by this machine's before the first."""
        return self._current.now() if self._current else datetime.now(UTC)

    def publish(self, document: Mapping[str, Any]) -> None:
        """Publish a document; one that has a null in an object says the same without it."""
        cleaned = drop_nulls(document)
        with self._lock:
            before = self._current
            number = before.number + 1 if before else 1
            published = Published(self._run, number, cleaned, time.monotonic())
            if before:
                self._patches.append((number, _encode_change(published, before)))
            self._current = published
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    def subscribe(self, wake: Wake) -> Callable[[], None]:
        """Call `wake` after each document, in the thread that publishes; returns what ends that."""
        with self._lock:
            self._wakes.add(wake)
        return lambda: self._wakes.discard(wake)

    @property
    def streams(self) -> int:
        return len(self._wakes)

    def events_after(self, seen: str) -> tuple[str, bytes]:
        """The newest id, and the events that lead from `seen` to it: patches, or the whole document."""
        with self._lock:
            current, patches = self._current, tuple(self._patches)
        if current is None or seen == current.id:
            return seen, b""
        run, _, number = seen.partition("-")
        first = int(number) + 1 if number.isdigit() else 0
        missing = [event for at, event in patches if at >= first]
        if run == self._run and len(missing) == current.number - first + 1:
            return current.id, b"".join(missing)
        whole = {"now": format_now(self.now()), "document": msgspec.Raw(current.json)}
        return current.id, encode_event("snapshot", whole, current.id)


def drop_nulls(value: Any) -> Any:
    """The value without what is null in objects: absent and null say the same, and a merge patch has no null to set."""
    if isinstance(value, Mapping):
        return {key: drop_nulls(each) for key, each in value.items() if each is not None}
    return value


def encode_event(name: str, data: object, identity: str | None = None) -> bytes:
    """An event of a stream. (HTML standard, server-sent events)"""
    at = f"id: {identity}\n".encode() if identity else b""
    return b"event: " + name.encode() + b"\n" + at + b"data: " + msgspec.json.encode(data) + b"\n\n"


def format_now(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode_change(after: Published, before: Published) -> bytes:
    """The patch without the charts' lines, and before it the points that these have more."""
    patch = make_patch(_without_series(before.document), _without_series(after.document))
    points = find_points(before.document.get("series"), after.document.get("series"))
    return b"".join([*(encode_event("points", each) for each in points), encode_event("patch", patch, after.id)])


def _without_series(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "series"}


def find_points(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The points at the end of the lines `after` that those `before` lack, oldest first."""
    if after is None:
        return []
    count = len(after.get("slot_bytes", ()))
    missing = min(_end(after, count) - _end(before, len(before.get("slot_bytes", ()))), count) if before else count
    return [_point(after, count, at) for at in range(count - missing, count)]


def _end(series: Mapping[str, Any], count: int) -> int:
    """The number of the step after the last point, counted from 1970."""
    return int(parse_time(series["start"]).timestamp()) // int(series.get("step_seconds", 60)) + count


def _point(series: Mapping[str, Any], count: int, at: int) -> dict[str, Any]:
    def value(line: Any) -> Any:
        # a line that began later ends where all do
        back = count - at
        return line[-back] if line is not None and len(line) >= back else None

    lines = series.get("freshness", {})
    return {
        "start": series["start"],
        "slot_bytes": value(series.get("slot_bytes")),
        "arrived": value(series.get("changes_per_minute", {}).get("arrived")),
        "freshness": {name: {key: value(line.get(key)) for key in ("p50", "p99")} for name, line in lines.items()},
    }

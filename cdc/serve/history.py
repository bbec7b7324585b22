"""What outlives a restart: the last status document, and each hour of the last day, in a small SQLite file.

The file lies beside the truth: where it is missing, damaged, or cannot be written, the page goes on without a past.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec.structs import replace

from cdc.core.containment import LOG
from cdc.run.status.document import Document, decode, encode

HOURS: Final = 24
SAVE_SECONDS: Final = 60
BUSY_SECONDS: Final = 0.5
"""How long another `cdc serve` on the same file is waited for."""
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS document (one INTEGER PRIMARY KEY CHECK (one = 1), json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS hours (kind TEXT, name TEXT, hour INTEGER, sum REAL, count INTEGER,
  PRIMARY KEY (kind, name, hour)) WITHOUT ROWID;
"""
Key = tuple[str, str]
"""A kind of thing (followers, tables, views) and its name."""


class Hours:
    """The mean of each hour, by thing: of a follower's median seconds, of a table's changes a minute."""

    def __init__(self) -> None:
        self._sums: dict[Key, dict[int, tuple[float, int]]] = {}

    def set(self, key: Key, hour: int, total: float, count: int) -> None:
        self._sums.setdefault(key, {})[hour] = (total, count)

    def add(self, key: Key, hour: int, value: float) -> None:
        before = self._sums.setdefault(key, {})
        total, count = before.get(hour, (0.0, 0))
        before[hour] = (total + value, count + 1)
        for old in [each for each in before if each <= hour - HOURS]:
            del before[old]

    def day(self, key: Key, hour: int) -> list[float]:
        """The last 24 h, oldest first, from the first hour that is known; 0 for an hour without a look."""
        known = self._sums.get(key, {})
        first = min((each for each in known if each > hour - HOURS), default=hour + 1)
        means = (known.get(each, (0.0, 1)) for each in range(first, hour + 1))
        return [round(total / count, 3) for total, count in means]

    def of_hour(self, hour: int) -> Iterator[tuple[str, str, int, float, int]]:
        for (kind, name), known in self._sums.items():
            if hour in known:
                yield (kind, name, hour, *known[hour])


class History:
    """The file of one pipeline. `previous`: the last document of an earlier process, None without one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hours = Hours()
        self._saved_at = 0.0
        self._failed = False
        self._file = self._open()
        self.previous = self._read()

    def add(self, document: Document) -> Document:
        """Take a document in; returns it with the day of each thing. Saves once a minute."""
        at = document.at.timestamp()
        hour = int(at) // 3600
        for key, value in _list_values(document):
            self._hours.add(key, hour, value)
        made = self._with_days(document, hour)
        if at - self._saved_at >= SAVE_SECONDS:
            self._saved_at = at
            self._save(made, hour)
        return made

    def close(self) -> None:
        """Save nothing more."""
        if self._file:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _with_days(self, document: Document, hour: int) -> Document:
        def known(kind: str, things: Mapping[str, Any]) -> dict[str, Any]:
            return {name: replace(each, day=self._hours.day((kind, name), hour)) for name, each in things.items()}

        return replace(
            document,
            followers=known("followers", document.followers),
            tables=known("tables", document.tables),
            views=known("views", document.views),
        )

    def _open(self) -> sqlite3.Connection | None:
        try:
            return self._open_file()
        except (OSError, sqlite3.Error) as damaged:
            LOG.warning("history %s cannot be opened, and begins anew: %s", self._path, damaged)
        # once more, with a new file; what cannot be opened at all is done without
        with suppress(OSError, sqlite3.Error):
            self._path.replace(self._path.with_suffix(".damaged"))
            return self._open_file()
        return None

    def _open_file(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # the watch's thread writes what this one has opened, and no other
        file = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            file.executescript(SCHEMA)
            file.execute("SELECT count(*) FROM hours").fetchone()
        except sqlite3.Error:
            file.close()
            raise
        return file

    def _read(self) -> Document | None:
        if self._file is None:
            return None
        try:
            for kind, name, *hour in self._file.execute("SELECT kind, name, hour, sum, count FROM hours"):
                self._hours.set((kind, name), *hour)
            found: Sequence[str] | None = self._file.execute("SELECT json FROM document").fetchone()
            return decode(found[0]) if found else None
        # another version wrote it, or a part of the file is damaged
        except (sqlite3.Error, msgspec.DecodeError, ValueError, TypeError) as unread:
            LOG.warning("history %s is not read: %s", self._path, unread)
            return None

    def _save(self, document: Document, hour: int) -> None:
        if self._file is None:
            return
        try:
            with self._file as file, closing(file.cursor()) as cursor:
                cursor.execute("INSERT OR REPLACE INTO document VALUES (1, ?)", (encode(document).decode(),))
                cursor.executemany("INSERT OR REPLACE INTO hours VALUES (?, ?, ?, ?, ?)", self._hours.of_hour(hour))
                cursor.execute("DELETE FROM hours WHERE hour <= ?", (hour - HOURS,))
            self._failed = False
        except sqlite3.Error as error:
            # said once: a disk that is full stays full for a while
            if not self._failed:
                LOG.warning("history %s is not saved: %s", self._path, error)
            self._failed = True


def _list_values(document: Document) -> Iterator[tuple[Key, float]]:
    for name, follower in document.followers.items():
        if follower.p50_seconds is not None:
            yield ("followers", name), follower.p50_seconds
    for name, table in document.tables.items():
        # a table that never changes needs no row an hour
        if table.changes_per_minute:
            yield ("tables", name), table.changes_per_minute
    for name, view in document.views.items():
        if view.shows_seconds is not None:
            yield ("views", name), view.shows_seconds

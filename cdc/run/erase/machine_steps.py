"""The row on this machine: lines of logs, the page's SQLite, and what repairs hand over."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from cdc.run.erase.values import Sought
from cdc.run.pipeline import Pipeline

_LOGS: Final = ("*.log", "*.log.*", "*.txt")
_BUSY_SECONDS: Final = 10.0


def clean_machine(pipeline: Pipeline, sought: Sought) -> int:
    """Overwrite values in logs, take them out of SQLite files, and end repairs; returns in how many files were some."""
    repairs = pipeline.repair_requests.refuse_all(
        "an erasure has begun meanwhile", "repair once more when it has ended"
    )
    return (
        repairs
        + sum(_blank_out(path, sought) for path in list_logs(pipeline))
        + sum(_clean_database(path, sought) for path in sorted((pipeline.state / "serve").glob("*.sqlite")))
    )


def list_logs(pipeline: Pipeline) -> list[Path]:
    """The logs of toolkit and local parts."""
    folder = pipeline.state / "logs"
    return sorted(path for kind in _LOGS for path in folder.rglob(kind) if path.is_file())


def _blank_out(path: Path, sought: Sought) -> bool:
    """Overwrite in place, with as many bytes: whoever has the file open writes on at its end."""
    content = path.read_bytes()
    changed = False
    with path.open("r+b") as file:
        for pattern in sought.patterns:
            at = content.find(pattern)
            while at >= 0:
                file.seek(at)
                file.write(b"x" * len(pattern))
                changed, at = True, content.find(pattern, at + len(pattern))
    return changed


def _clean_database(path: Path, sought: Sought) -> bool:
    """Delete rows with a value, overwrite what is free, and write the file anew without it."""
    count = 0
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as file:
        file.execute("PRAGMA secure_delete = ON")
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
        for table in tables:
            columns = [row[1] for row in file.execute(f'PRAGMA table_info("{table}")').fetchall()]
            for text in sought.texts:
                found = " OR ".join(f'instr("{name}", ?)' for name in columns)
                count += file.execute(f'DELETE FROM "{table}" WHERE {found}', [text] * len(columns)).rowcount  # noqa: S608
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.execute("VACUUM")
    return count > 0

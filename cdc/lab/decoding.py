"""The log of a database as Postgres itself decodes it: the least that is needed to follow it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

Session = psycopg.Connection[Any]
_CHANGE: Final = re.compile(r"table (.*?): (INSERT|UPDATE|DELETE|TRUNCATE): (.*)", re.DOTALL)
_COLUMN: Final = re.compile(r"(\w+)\[[^\]]*\]:(?:'((?:[^']|'')*)'|(\S+))")


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A committed change in `schema.table`: an INSERT, UPDATE, DELETE (with the key's columns only) or TRUNCATE."""

    table: str
    kind: str
    row: Mapping[str, str]


def make_slot(session: Session, name: str = "slot") -> str:
    """Ask Postgres for a replication slot: from here on it keeps its log until the slot has been read.

    Returns its full name, which begins with that of the database; it is dropped with a database of a lab.
    """
    full = f"{session.info.dbname}_{name}"
    session.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (full,))
    return full


def export_snapshot(replication: Session, name: str) -> tuple[str, str]:
    """Make a slot through a replication connection; returns its full name, and that of its snapshot.

    The snapshot shows exactly the commits that the slot does not tell; it lasts until the connection is used again.
    """
    full = f"{replication.info.dbname}_{name}"
    command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL test_decoding (SNAPSHOT 'export')")
    # it answers slot, consistent point, snapshot, plugin
    [answer] = replication.execute(command.format(sql.Identifier(full))).fetchall()
    return full, answer[2]


def read_slot(session: Session, name: str) -> list[LoggedChange]:
    """Take every change that was committed since the slot was read last, in the order of the commits."""
    lines = session.execute("SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL)", (name,)).fetchall()
    return [change for (line,) in lines if (change := parse_change(line))]


def parse_change(line: str) -> LoggedChange | None:
    """Parse a line of test_decoding; None for a BEGIN or a COMMIT."""
    found = _CHANGE.fullmatch(line)
    if not found:
        return None
    table, kind, columns = found.groups()
    return LoggedChange(
        table, kind, {name: text.replace("''", "'") or plain for name, text, plain in _COLUMN.findall(columns)}
    )

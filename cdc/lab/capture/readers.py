"""Ways to tell what changes in a table of orders: what the database needs for each, and who looks now and then."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from cdc.lab.decoding import LoggedChange, make_slot, read_slot

ORDERS: Final = "CREATE TABLE orders (id int PRIMARY KEY, version int NOT NULL, updated_at timestamptz NOT NULL);"
INDEX: Final = "CREATE INDEX ON orders (updated_at)"
ROW_TRIGGER: Final = """
    CREATE TABLE changes (
        number bigserial PRIMARY KEY, transaction xid8 DEFAULT pg_current_xact_id(), id int, version int);
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'TRUNCATE' THEN INSERT INTO changes (id, version) VALUES (0, 0);
        ELSIF TG_OP = 'DELETE' THEN INSERT INTO changes (id, version) VALUES (OLD.id, 0);
        ELSE INSERT INTO changes (id, version) VALUES (NEW.id, NEW.version); END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER note_rows AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION note_change();"""
TRUNCATE_TRIGGER: Final = "CREATE TRIGGER note_all AFTER TRUNCATE ON orders EXECUTE FUNCTION note_change()"

Version = tuple[int, int]
"""An order and its version; version 0 when it is deleted, order 0 when all are."""
Session = psycopg.Connection[Any]
Reader = Callable[[Session], Iterator[list[Version]]]
"""Looks at each `next`, and yields what has changed since it looked last."""


@dataclass(frozen=True, slots=True)
class CaptureWay:
    """A way to tell changes. `tables`: SQL that makes, in `schema`, the table of orders and what tells its changes."""

    name: str
    schema: str
    tables: str
    read: Reader


def look_away(_: Session) -> Iterator[list[Version]]:
    """Tell nothing."""
    while True:
        yield []


def poll(session: Session) -> Iterator[list[Version]]:
    """Read the rows that were updated after the newest that was read."""
    last = "-infinity"
    while True:
        rows = session.execute(
            "SELECT id, version, updated_at::text FROM orders WHERE updated_at > %s ORDER BY updated_at", (last,)
        ).fetchall()
        last = rows[-1][2] if rows else last
        yield [(order, version) for order, version, _ in rows]


def read_by_number(session: Session) -> Iterator[list[Version]]:
    """Read the table of changes behind the highest number that was read."""
    last = 0
    while True:
        rows = session.execute(
            "SELECT id, version, number FROM changes WHERE number > %s ORDER BY number", (last,)
        ).fetchall()
        last = rows[-1][2] if rows else last
        yield [(order, version) for order, version, _ in rows]


def read_finished(session: Session) -> Iterator[list[Version]]:
    """Read the table of changes up to the oldest transaction that is open: none before it can commit any more."""
    oldest = "0"
    while True:
        last, [oldest] = oldest, session.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchall()[0]
        rows = session.execute(
            "SELECT id, version FROM changes WHERE transaction >= %s::xid8 AND transaction < %s::xid8 ORDER BY number",
            (last, oldest),
        ).fetchall()
        yield rows


def read_log(session: Session) -> Iterator[list[Version]]:
    """Read the log of the database from now on."""
    slot = make_slot(session)
    [[schema]] = session.execute("SELECT current_schema()").fetchall()
    while True:
        yield [_to_version(change) for change in read_slot(session, slot) if change.table == f"{schema}.orders"]


def _to_version(change: LoggedChange) -> Version:
    return int(change.row.get("id", 0)), int(change.row.get("version", 0))


WAYS: Final = (
    CaptureWay("nobody looks", "unwatched", ORDERS, look_away),
    CaptureWay("polling updated_at", "polled", ORDERS + INDEX, poll),
    CaptureWay("row triggers, read by number", "triggered", ORDERS + ROW_TRIGGER, read_by_number),
    CaptureWay(
        "all triggers, read behind nobody open", "finished", ORDERS + ROW_TRIGGER + TRUNCATE_TRIGGER, read_finished
    ),
    CaptureWay("the log", "logged", ORDERS, read_log),
)

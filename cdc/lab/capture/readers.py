"""Ways to tell the changes of a table of orders: the needs of each in the database, and who looks now and then."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, Final, LiteralString, NamedTuple

from cdc.lab.decoding import LoggedChange, Session, make_slot, read_slot

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
Reader = Callable[[Session], Iterator[list[Version]]]
"""Looks at each `next`, and yields the changes since it looked last."""


class CaptureWay(NamedTuple):
    """A way to tell changes. `tables`: SQL for the table of orders in `schema`, and for all that tells its changes."""

    name: str
    schema: str
    tables: str
    read: Reader


def _read_behind(query: LiteralString, beginning: Any) -> Reader:
    """Read the rows behind the last that was read, by the third of the query's columns."""

    def read(session: Session) -> Iterator[list[Version]]:
        last = beginning
        while True:
            rows = session.execute(query, (last,)).fetchall()
            last = rows[-1][2] if rows else last
            yield [(order, version) for order, version, _ in rows]

    return read


def read_finished(session: Session) -> Iterator[list[Version]]:
    """Read the table of changes up to the oldest transaction that is open: none before it can commit any more."""
    query = "SELECT id, version FROM changes WHERE transaction >= %s::xid8 AND transaction < %s::xid8 ORDER BY number"
    oldest = "0"
    while True:
        last, [oldest] = oldest, session.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchall()[0]
        yield session.execute(query, (last, oldest)).fetchall()


def read_log(session: Session) -> Iterator[list[Version]]:
    """Read the log of the database from now on."""
    slot = make_slot(session)
    [[schema]] = session.execute("SELECT current_schema()").fetchall()
    while True:
        yield [_to_version(change) for change in read_slot(session, slot) if change.table == f"{schema}.orders"]


def _to_version(change: LoggedChange) -> Version:
    return int(change.row.get("id", 0)), int(change.row.get("version", 0))


poll = _read_behind(
    "SELECT id, version, updated_at::text FROM orders WHERE updated_at > %s ORDER BY updated_at", "-infinity"
)
read_by_number = _read_behind("SELECT id, version, number FROM changes WHERE number > %s ORDER BY number", 0)
WAYS: Final = (
    CaptureWay("nobody looks", "unwatched", ORDERS, lambda _: repeat([])),
    CaptureWay("polling updated_at", "polled", ORDERS + INDEX, poll),
    CaptureWay("row triggers, read by number", "triggered", ORDERS + ROW_TRIGGER, read_by_number),
    CaptureWay(
        "all triggers, read behind nobody open", "finished", ORDERS + ROW_TRIGGER + TRUNCATE_TRIGGER, read_finished
    ),
    CaptureWay("the log", "logged", ORDERS, read_log),
)

"""The same shop as rows of a database, changed in place; and what its log says of them."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg

from cdc.lab.decoding import LoggedChange, make_slot, read_slot
from cdc.lab.derived.shop import ITEMS, STOCK, Act, Deed

Session = psycopg.Connection[Any]
_TABLES: Final = """
    CREATE TABLE stock (item int PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0));
    CREATE TABLE carts (cart int, item int, PRIMARY KEY (cart, item));
    CREATE TABLE orders (cart int, item int, PRIMARY KEY (cart, item))"""
_TAKE: Final = "UPDATE stock SET amount = amount - 1 WHERE item = %s AND amount > 0 RETURNING item"
_GIVE_BACK: Final = "UPDATE stock SET amount = amount + 1 WHERE item = %s"


def keep_rows(dsn: str, commands: Sequence[Act]) -> tuple[int, list[LoggedChange], int]:
    """Carry out the commands in tables; returns how many were refused, the changes in the log, and what is left."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(_TABLES)
        session.cursor().executemany("INSERT INTO stock VALUES (%s, %s)", [(item, STOCK) for item in range(ITEMS)])
        slot = make_slot(session)
        refused = sum(not _carry_out(session, command) for command in commands)
        [[left]] = session.execute("SELECT sum(amount) FROM stock").fetchall()
        return refused, read_slot(session, slot), int(left)


def count_gone(changes: Sequence[LoggedChange]) -> int:
    """Count the rows that went from carts without an order: taken out, or expired. The log does not say which."""
    went = [change.kind for change in changes if change.table == "public.carts"].count("DELETE")
    return went - [change.table for change in changes].count("public.orders")


def count_rows_beyond(changes: Sequence[LoggedChange]) -> int:
    """Count what was taken beyond the stock, at the worst moment of each item: which the rows have forgotten."""
    worst = dict.fromkeys(map(str, range(ITEMS)), 0)
    for row in (change.row for change in changes if change.table == "public.stock"):
        worst[row["item"]] = min(worst[row["item"]], int(row["amount"]))
    return -sum(worst.values())


def _carry_out(session: Session, command: Act) -> bool:
    """Carry out a command in one transaction, if the rows allow it; returns whether they do."""
    place = command.cart, command.item
    with session.transaction():
        if command.deed is Deed.PUT:
            is_there = bool(session.execute(_TAKE, (command.item,)).fetchall())
            if is_there:
                session.execute("INSERT INTO carts VALUES (%s, %s)", place)
            return is_there
        if not session.execute("DELETE FROM carts WHERE cart = %s AND item = %s RETURNING item", place).fetchall():
            return False
        if command.deed is Deed.ORDER:
            session.execute("INSERT INTO orders VALUES (%s, %s)", place)
        else:
            session.execute(_GIVE_BACK, (command.item,))
    return True

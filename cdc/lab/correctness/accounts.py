"""The accounts of a ledger in Postgres, one database for each partition of them."""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from cdc.lab.correctness.ledger import AccountBalances, Posting

_NOTE = "INSERT INTO known VALUES (%s, %s) ON CONFLICT DO NOTHING"
_ADD = "UPDATE accounts SET balance = balance + %s WHERE account = %s"


def make_accounts(dsn: str, balances: Mapping[int, int]) -> None:
    """Make the tables of an empty database: accounts, and the postings that are known."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE accounts (account int PRIMARY KEY, balance int)")
        cursor.execute("CREATE TABLE known (request int, account int, PRIMARY KEY (request, account))")
        cursor.executemany("INSERT INTO accounts VALUES (%s, %s)", list(balances.items()))


def add(connection: "psycopg.Connection[Any]", posting: Posting) -> None:
    """Add a posting to its account."""
    connection.execute(_ADD, (posting.amount, posting.account))


def add_once(connection: "psycopg.Connection[Any]", posting: Posting) -> bool:
    """Add a posting, unless it is known by its request; returns whether it was new. To be called in a transaction."""
    is_new = connection.execute(_NOTE, (posting.request, posting.account)).rowcount == 1
    if is_new:
        add(connection, posting)
    return is_new


def read_balances(connection: "psycopg.Connection[Any]") -> AccountBalances:
    """The balances of all accounts in one database."""
    return AccountBalances(connection.execute("SELECT account, balance FROM accounts").fetchall())


def read_all(dsns: Iterable[str]) -> AccountBalances:
    """The balances of all accounts in several databases."""
    found = AccountBalances()
    for dsn in dsns:
        with psycopg.connect(dsn) as connection:
            found |= read_balances(connection)
    return found

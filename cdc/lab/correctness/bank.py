"""Accounts and transfers between them. Accounts lie in two partitions, and every transfer concerns both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from cdc.lab.decoding import Session
from cdc.lab.workplace import Workplace

ACCOUNTS: Final = range(10)
PARTITIONS: Final = 2
BEGINNING: Final = 100  # in each account, before the first transfer

Balances = dict[int, int]


@dataclass(frozen=True, slots=True)
class Posting:
    """An amount that comes to an account, or leaves it; `request` is the id of the transfer that it belongs to."""

    request: int
    account: int
    amount: int

    @property
    def partition(self) -> int:
        return self.account % PARTITIONS


@dataclass(frozen=True, slots=True)
class Transfer:
    """A request to move an amount from one account to another."""

    request: int
    payer: int
    payee: int
    amount: int

    @property
    def sides(self) -> tuple[Posting, Posting]:
        """Its debit and its credit."""
        return Posting(self.request, self.payer, -self.amount), Posting(self.request, self.payee, self.amount)


def plan_transfers(random: Random, number: int) -> list[Transfer]:
    """Plan transfers from an account of one partition to one of the other."""
    transfers = []
    for request in range(number):
        payer = random.randrange(len(ACCOUNTS))
        payee = random.choice([each for each in ACCOUNTS if (each - payer) % PARTITIONS])
        transfers.append(Transfer(request, payer, payee, random.randint(1, 20)))
    return transfers


def post_all(postings: Iterable[Posting]) -> Balances:
    balances = dict.fromkeys(ACCOUNTS, BEGINNING)
    for posting in postings:
        balances[posting.account] += posting.amount
    return balances


def open_accounts(place: Workplace, name: str, accounts: Sequence[int] = ACCOUNTS) -> str:
    """Make a database with accounts, and a table of the postings that are known; returns its connection string."""
    dsn = place.database(name)
    session = place.session(dsn)
    session.execute("CREATE TABLE accounts (account int PRIMARY KEY, balance int)")
    session.execute("CREATE TABLE known (request int, account int, PRIMARY KEY (request, account))")
    session.execute("INSERT INTO accounts SELECT unnest(%s::int[]), %s", (list(accounts), BEGINNING))
    return dsn


def add(session: Session, posting: Posting) -> None:
    update = "UPDATE accounts SET balance = balance + %s WHERE account = %s"
    session.execute(update, (posting.amount, posting.account))


def add_once(session: Session, posting: Posting) -> bool:
    """Add a posting, unless it is known by its request; returns whether it was new. To be called in a transaction."""
    note = "INSERT INTO known VALUES (%s, %s) ON CONFLICT DO NOTHING"
    is_new = session.execute(note, (posting.request, posting.account)).rowcount == 1
    if is_new:
        add(session, posting)
    return is_new


def read_balances(session: Session) -> Balances:
    return Balances(session.execute("SELECT account, balance FROM accounts").fetchall())

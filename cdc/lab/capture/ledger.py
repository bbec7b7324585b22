"""A ledger: transfers between accounts, written all the time, and copies of it compared with it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from typing import Any, Final

import psycopg

ACCOUNTS: Final = 40
HALVES: Final = ((0, ACCOUNTS // 2), (ACCOUNTS // 2, ACCOUNTS))
"""Money goes from accounts of the first half to those of the second: so half of a transfer is seen."""
TABLE: Final = "CREATE TABLE entries (number bigserial PRIMARY KEY, account int, amount int)"

Session = psycopg.Connection[Any]
Ledger = Sequence["LedgerEntry"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What comes to an account in a transfer, or leaves it; all entries together are 0."""

    number: int
    account: int
    amount: int


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """A copy and what its log told behind it. It adds what it is told: it cannot know what it has already."""

    name: str
    copied: Ledger
    logged: Ledger

    @property
    def entries(self) -> list[LedgerEntry]:
        return [*self.copied, *self.logged]


class TransferWriter(Thread):
    """Moves money until it is stopped, one transaction a transfer."""

    def __init__(self, dsn: str, seed: int, stopping: Event) -> None:
        super().__init__(daemon=True)
        self._dsn, self._random, self._stopping = dsn, Random(seed), stopping  # noqa: S311
        self.transfers = 0

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as session:
            while not self._stopping.is_set():
                transfer(session, self._random)
                self.transfers += 1


def transfer(session: Session, random: Random) -> None:
    """Move money in one transaction, which is one statement."""
    source, target = (random.randrange(*half) for half in HALVES)
    amount = random.randint(1, 99)
    session.execute(
        "INSERT INTO entries (account, amount) VALUES (%s, %s), (%s, %s)", (source, -amount, target, amount)
    )


def compare(truth: Ledger, copy: LedgerCopy) -> tuple[int, int, int, int]:
    """Entries lost and doubled, accounts with another balance than in the source, and the sum of all accounts."""
    there = Counter(entry.number for entry in copy.entries)
    lost = sum(entry.number not in there for entry in truth)
    right, derived = _add_up(truth), _add_up(copy.entries)
    wrong = sum(right[account] != derived[account] for account in range(ACCOUNTS))
    return lost, there.total() - len(there), wrong, derived.total()


def _add_up(entries: Ledger) -> Counter[int]:
    balances: Counter[int] = Counter()
    for entry in entries:
        balances[entry.account] += entry.amount
    return balances

"""Accounts and transfers between them, as values. Accounts lie in two partitions, and every transfer concerns both."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

ACCOUNTS: Final = 10
PARTITIONS: Final = 2
BEGINNING: Final = 100
"""What is in each account before the first transfer."""

AccountBalances = dict[int, int]


@dataclass(frozen=True, slots=True)
class Posting:
    """An amount that comes to an account, or leaves it; `request` is the id of the transfer that it belongs to."""

    request: int
    account: int
    amount: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """A request to move an amount from one account to another."""

    request: int
    payer: int
    payee: int
    amount: int

    @property
    def debit(self) -> Posting:
        return Posting(self.request, self.payer, -self.amount)

    @property
    def credit(self) -> Posting:
        return Posting(self.request, self.payee, self.amount)


def find_partition(account: int) -> int:
    return account % PARTITIONS


def plan_transfers(random: Random, number: int) -> list[Transfer]:
    """Plan transfers from an account of one partition to one of the other."""
    transfers = []
    for request in range(number):
        payer = random.randrange(ACCOUNTS)
        payee = random.choice([each for each in range(ACCOUNTS) if find_partition(each) != find_partition(payer)])
        transfers.append(Transfer(request, payer, payee, random.randint(1, 20)))
    return transfers


def post_all(postings: Iterable[Posting]) -> AccountBalances:
    """The balance of every account after these postings."""
    balances = dict.fromkeys(range(ACCOUNTS), BEGINNING)
    for posting in postings:
        balances[posting.account] += posting.amount
    return balances

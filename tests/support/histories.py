"""Random histories of one table, as Postgres would send them: the oracle is a plain dict beside the changes."""

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from cdc.core.table import Column, Kind, Table, TableName
from tests.support.model import UNCHANGED, Change, CommitOrder, Delete, Insert, Key, Row, SentRow, Truncate, Update

TABLE = TableName("public", "things")
THINGS = Table(
    TABLE,
    (Column("id", Kind.INTEGER), Column("small", Kind.INTEGER), Column("big", Kind.TEXT)),
    ("id",),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One transaction: its changes in order, and the rows that the source has after it."""

    changes: tuple[Change, ...]
    rows: dict[Key, Row]


@dataclass(frozen=True, slots=True)
class Step:
    """What somebody does to a row, if Postgres lets him: to the one of `key`, which may become that of `other`."""

    verb: str
    key: int
    other: int
    small: int
    big: str | None
    touches_big: bool


VERBS = ("insert", "update", "update", "delete", "move", "move")
_STEPS = st.builds(
    Step,
    verb=st.sampled_from([*VERBS, "truncate"]),
    key=st.integers(0, 5),
    other=st.integers(0, 5),
    small=st.integers(0, 99),
    big=st.none() | st.text("xyz", max_size=3),
    touches_big=st.booleans(),
)


def random_steps(random: Random) -> list[list[Step]]:
    """The steps of a history's transactions, quicker made than by Hypothesis, and never shrunk; many come to nothing,
    since Postgres would refuse them."""
    return [[_random_step(random) for _ in range(random.randint(1, 5))] for _ in range(random.randint(1, 6))]


def _random_step(random: Random) -> Step:
    big = random.choice((None, "", "x", "yz"))
    return Step(
        random.choice(VERBS),
        random.randrange(5),
        random.randrange(5),
        random.randrange(100),
        big,
        random.random() < 0.5,
    )


def histories(before: dict[Key, Row], max_transactions: int = 8) -> st.SearchStrategy[list[Sent]]:
    """Lists of transactions that begin with `before`; steps that Postgres would refuse are left out."""
    transactions = st.lists(st.lists(_STEPS, min_size=1, max_size=6), max_size=max_transactions)
    return transactions.map(lambda steps: play(before, steps))


def play(before: dict[Key, Row], transactions: list[list[Step]]) -> list[Sent]:
    """The transactions as Postgres would send them, and the rows after each; empty ones are not sent."""
    history: list[Sent] = []
    rows = dict(before)
    for rank, steps in enumerate(transactions, start=1):
        changes: list[Change] = []
        for step in steps:
            changes += _do(rows, step, rank, len(changes) + 1)
        if changes:
            history.append(Sent(tuple(changes), dict(rows)))
    return history


def _do(rows: dict[Key, Row], step: Step, rank: int, order: int) -> list[Change]:
    key, other, here = (step.key,), (step.other,), CommitOrder(rank, order)
    match step.verb:
        case "insert" if key not in rows:
            rows[key] = {"id": step.key, "small": step.small, "big": step.big}
            return [Insert(TABLE, here, key, rows[key])]
        case "update" if key in rows:
            rows[key], sent = _changed(rows[key], step, step.key)
            return [Update(TABLE, here, key, sent)]
        case "delete" if key in rows:
            del rows[key]
            return [Delete(TABLE, here, key)]
        case "move" if key in rows and other not in rows:
            rows[other], sent = _changed(rows.pop(key), step, step.other)
            create = Insert(TABLE, CommitOrder(rank, order + 1), other, sent, moved_from=key)
            return [Delete(TABLE, here, key, moved_to=other), create]
        case "truncate" if step.key == 0:
            rows.clear()
            return [Truncate(TABLE, here)]
    return []


def _changed(row: Row, step: Step, new_id: int) -> tuple[Row, SentRow]:
    big = step.big if step.touches_big else row["big"]
    after: Row = {"id": new_id, "small": step.small, "big": big}
    return after, (after if step.touches_big else {**after, "big": UNCHANGED})

"""A copy of a table to which others write, then its log: rows are lost or doubled where the two do not meet.

An entry that commits meanwhile is lost if the log begins after the copy, and is there twice if it begins before, as
entries are appended. The snapshot of a replication slot shows just the entries that the slot's log does not tell.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from threading import Event
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from cdc.lab.decoding import Session, export_snapshot, make_slot, read_slot
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.waiting import in_background, wait_for
from cdc.lab.workplace import Workplace

ACCOUNTS: Final = 40
HALVES: Final = ((0, ACCOUNTS // 2), (ACCOUNTS // 2, ACCOUNTS))
"""Money goes from accounts of the first half to those of the second: so half of a transfer is seen."""
SUM: Final = "sum of all, 0 in the source"
BEFORE: Final = 200  # transfers before the first copy
WRITERS: Final = 2
MEANWHILE: Final = 20  # so many transfers at least are committed between two steps of the copies


class LedgerEntry(NamedTuple):
    """An amount that comes to an account in a transfer, or leaves it; all entries together are 0."""

    number: int
    account: int
    amount: int


def run(place: Workplace) -> Findings:
    dsn = place.database("snapshot")
    session, replication = place.session(dsn), place.session(dsn, replication="database")
    session.execute("CREATE TABLE entries (number bigserial PRIMARY KEY, account int, amount int)")
    for _ in range(BEFORE):
        _transfer(session, place.random)
    place.say(f"a transfer appends two entries to a ledger, whose sum is 0; {WRITERS} writers go on meanwhile")
    place.say("the ledger is copied in two halves, read at two moments unless both are on one snapshot")
    with _keep_writing(place, dsn) as let_write:
        moments = [let_write()]
        early = make_slot(session, "early")
        exported, snapshot = export_snapshot(replication, "exported")
        moments.append(let_write())
        copied, copied_at_once = list[LedgerEntry](), list[LedgerEntry]()
        for half in HALVES:
            copied += _copy(session, half)
            copied_at_once += _copy_at(dsn, snapshot, half)
            moments.append(let_write())
        late = make_slot(session, "late")
        moments += let_write(), time.monotonic()
    copies = (
        ("the log begins after the copy", copied, _read_entries(session, late)),
        ("the log begins before the same copy", copied, _read_entries(session, early)),
        ("the log begins at the copy's snapshot", copied_at_once, _read_entries(session, exported)),
    )
    truth = [entry for half in HALVES for entry in _copy(session, half)]
    # a copy adds all that its log tells: it cannot know which entries it has already
    rows = [(name, len(copy), len(logged), *compare(truth, [*copy, *logged])) for name, copy, logged in copies]
    (_, _, _, lost, *_), (_, _, _, _, doubled, *_), (_, _, _, none_lost, none_doubled, *_) = rows
    return Findings(
        columns=("way", "rows copied", "rows from the log", "lost", "doubled", f"of {ACCOUNTS} accounts wrong", SUM),
        rows=rows,
        sentence=f"A log that begins after the copy loses {lost} of {len(truth)} ledger entries, one that begins before"
        f" doubles {doubled}; a copy on the replication slot's snapshot loses {none_lost} and doubles {none_doubled}.",
        figure=_draw(moments),
    )


def compare(truth: Sequence[LedgerEntry], copy: Sequence[LedgerEntry]) -> tuple[int, int, int, int]:
    """Entries lost and doubled, accounts with another balance than in the source, and the sum of all accounts."""
    there = Counter(entry.number for entry in copy)
    lost = sum(entry.number not in there for entry in truth)
    right, derived = _add_up(truth), _add_up(copy)
    wrong = sum(right[account] != derived[account] for account in range(ACCOUNTS))
    return lost, there.total() - len(there), wrong, derived.total()


def _add_up(entries: Sequence[LedgerEntry]) -> Counter[int]:
    balances: Counter[int] = Counter()
    for entry in entries:
        balances[entry.account] += entry.amount
    return balances


def _transfer(session: Session, random: Random) -> None:
    """Move money in one transaction, which is one statement."""
    source, target = (random.randrange(*half) for half in HALVES)
    amount = random.randint(1, 99)
    query = "INSERT INTO entries (account, amount) VALUES (%s, %s), (%s, %s)"
    session.execute(query, (source, -amount, target, amount))


@contextmanager
def _keep_writing(place: Workplace, dsn: str) -> Iterator[Callable[[], float]]:
    """Let writers move money meanwhile; yields a wait for more transfers, which returns the time before them."""
    done: list[int] = []

    def write(seed: int, is_over: Event) -> None:
        random = Random(seed)  # noqa: S311
        with psycopg.connect(dsn, autocommit=True) as session:
            while not is_over.is_set():
                _transfer(session, random)
                done.append(seed)

    def let_write() -> float:
        # transfers that are open now may be before the step: they do not count
        now, goal = time.monotonic(), len(done) + MEANWHILE + WRITERS
        wait_for(lambda: len(done) >= goal, "transfers")
        return now

    with in_background([partial(write, place.random.randrange(2**32)) for _ in range(WRITERS)]):
        yield let_write


def _copy(session: Session, half: tuple[int, int]) -> list[LedgerEntry]:
    """Copy the entries of these accounts, as they are now."""
    query = "SELECT number, account, amount FROM entries WHERE account >= %s AND account < %s"
    return [LedgerEntry(*row) for row in session.execute(query, half)]


def _copy_at(dsn: str, snapshot: str, half: tuple[int, int]) -> list[LedgerEntry]:
    """Copy them as they are in a snapshot, by a session of its own."""
    with psycopg.connect(dsn) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
        return _copy(session, half)


def _read_entries(session: Session, slot: str) -> list[LedgerEntry]:
    return [
        LedgerEntry(*(int(change.row[name]) for name in LedgerEntry._fields)) for change in read_slot(session, slot)
    ]


def _draw(moments: Sequence[float]) -> Timeline:
    """Draw the time that each way knows, and which part of it twice or not at all."""
    start, early, first, second, late, end = (moment * 1000 for moment in moments)
    lanes = copy, after, before, slot = (
        "copy in two halves",
        "the log from after it",
        "the log from before it",
        "slot with its snapshot",
    )
    spans = (
        Span(copy, first, second, "copied"),
        Span(after, first, late, "lost", Tone.BAD),
        Span(after, late, end, "told"),
        Span(before, early, second, "told, and in the copy, too: doubled", Tone.BAD),
        Span(before, second, end, "told"),
        Span(slot, start, early, "snapshot", Tone.GOOD),
        Span(slot, early, end, "told", Tone.GOOD),
    )
    return Timeline("Commits while the table is copied: lost, doubled, or known once", lanes, spans=spans)

"""A copy of a table to which others write, then its log: rows are lost or doubled where the two do not meet.

What commits meanwhile is lost if the log begins after the copy, and is there twice if it begins before, as entries are
appended. The snapshot of a replication slot shows just what the slot's log does not tell.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event as Signal
from typing import Final

import psycopg
from psycopg import sql

from cdc.lab.book import FIRST, SECOND, Passage
from cdc.lab.capture.ledger import (
    ACCOUNTS,
    HALVES,
    TABLE,
    LedgerCopy,
    LedgerEntry,
    Session,
    TransferWriter,
    compare,
    transfer,
)
from cdc.lab.decoding import export_snapshot, make_slot, read_slot
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Span, Timeline
from cdc.lab.lesson import Findings, Lab
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

SUM: Final = "sum of all, 0 in the source"
BEFORE: Final = 200
"""Transfers before the first copy."""
WRITERS: Final = 2
MEANWHILE: Final = 20
"""So many transfers at least are committed between two steps of the copies."""


def run(place: Workplace) -> Findings:
    dsn = place.database("snapshot")
    session = place.keep(psycopg.connect(dsn, autocommit=True))
    session.execute(TABLE)
    for _ in range(BEFORE):
        transfer(session, place.random)
    place.say(f"a transfer appends two entries to a ledger, whose sum is 0; {WRITERS} writers go on meanwhile")
    place.say("the ledger is copied in two halves, read at two moments unless both are on one snapshot")
    replication = place.keep(psycopg.connect(dsn, autocommit=True, replication="database"))
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
    slots = {slot: _read_entries(session, slot) for slot in (late, early, exported)}
    copies = (
        LedgerCopy("the log begins after the copy", copied, slots[late]),
        LedgerCopy("the log begins before the same copy", copied, slots[early]),
        LedgerCopy("the log begins at the copy's snapshot", copied_at_once, slots[exported]),
    )
    truth = [entry for half in HALVES for entry in _copy(session, half)]
    rows = [(each.name, len(each.copied), len(each.logged), *compare(truth, each)) for each in copies]
    (_, _, _, lost, *_), (_, _, _, _, doubled, *_), (_, _, _, none_lost, none_doubled, *_) = rows
    return Findings(
        columns=("way", "rows copied", "rows from the log", "lost", "doubled", f"of {ACCOUNTS} accounts wrong", SUM),
        rows=tuple(rows),
        sentence=f"A log that begins after the copy loses {lost} of {len(truth)} ledger entries, one that begins before"
        f" doubles {doubled}; a copy on the replication slot's snapshot loses {none_lost} and doubles {none_doubled}.",
        figure=_draw(moments),
    )


@contextmanager
def _keep_writing(place: Workplace, dsn: str) -> Iterator[Callable[[], float]]:
    """Let writers move money meanwhile; yields what waits for more transfers, and returns the time before them."""
    stopping = Signal()
    writers = [TransferWriter(dsn, place.random.randrange(2**32), stopping) for _ in range(WRITERS)]

    def let_write() -> float:
        # what is open now may be before the step: it does not count
        now, goal = time.monotonic(), sum(writer.transfers for writer in writers) + MEANWHILE + WRITERS
        wait_for(lambda: sum(writer.transfers for writer in writers) >= goal, "transfers")
        return now

    for writer in writers:
        writer.start()
    try:
        yield let_write
    finally:
        stopping.set()
        for writer in writers:
            writer.join()


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
    rows = [change.row for change in read_slot(session, slot)]
    return [LedgerEntry(int(row["number"]), int(row["account"]), int(row["amount"])) for row in rows]


def _draw(moments: Sequence[float]) -> Timeline:
    """Draw which time each way knows, and what of it twice or not at all."""
    start, early, first, second, late, end = (moment * 1000 for moment in moments)
    return Timeline(
        "What commits while the table is copied: lost, doubled, or known once",
        ("copy in two halves", "the log from after it", "the log from before it", "slot with its snapshot"),
        spans=(
            Span("copy in two halves", first, second, "copied"),
            Span("the log from after it", first, late, "lost", Tone.BAD),
            Span("the log from after it", late, end, "told"),
            Span("the log from before it", early, second, "told, and in the copy, too: doubled", Tone.BAD),
            Span("the log from before it", second, end, "told"),
            Span("slot with its snapshot", start, early, "snapshot", Tone.GOOD),
            Span("slot with its snapshot", early, end, "told", Tone.GOOD),
        ),
    )


LAB: Final = Lab(
    passages=(
        Passage(FIRST, "Change Data Capture", "Initial snapshot"),
        Passage(SECOND, "Change Data Capture", "Initial snapshot"),
    ),
    files=("connect/source/slot.py", "snapshots/shared_snapshot.py", "snapshots/copy.py"),
    parts=(Service.POSTGRES,),
    run=run,
)

"""Money goes from an account of one partition to one of another, and no transaction spans both.

A process that posts both sides is killed between them, and money is lost or made. Through the log it is not: the
request is logged once with an id, both sides are derived from it, and each partition knows what it has posted.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from random import Random
from typing import Any, Final

from cdc.lab.book import FIRST_FUTURE, SECOND_PHILOSOPHY, Passage
from cdc.lab.correctness.accounts import make_accounts, read_all
from cdc.lab.correctness.ledger import (
    ACCOUNTS,
    BEGINNING,
    PARTITIONS,
    Posting,
    Transfer,
    find_partition,
    plan_transfers,
    post_all,
)
from cdc.lab.correctness.lives import LifeReport, Worker, plan_deaths, run_workers
from cdc.lab.correctness.transfer_processors import derive, move, post
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure, PartitionCells
from cdc.lab.lesson import Findings, Lab
from cdc.lab.messages import Message, read_whole
from cdc.lab.workplace import Workplace
from cdc.local.endpoints import Service

REQUESTS: Final = 24
DRAWN: Final = 18

SUM: Final = ACCOUNTS * BEGINNING
WAYS: Final = (
    "position noted, then debit, credit",
    "credit, debit, then position noted",
    "through the log, by request id",
)
LOSING, MAKING, LOGGED = WAYS


@dataclass(frozen=True, slots=True)
class Kills:
    """Where each process is killed, in order."""

    movers: tuple[str, ...]
    derivation: tuple[str, ...]
    posters: tuple[tuple[str, ...], ...]


def plan_kills(random: Random) -> Kills:
    """Plan kills between all steps: halfway between two postings, or their two writes, and behind both."""
    return Kills(
        plan_deaths(random, "request", ("halfway", "halfway", "done"), range(REQUESTS)),
        # early, so that the figure has them
        plan_deaths(random, "request", ("halfway", "done"), range(DRAWN // 2)),
        tuple(plan_deaths(random, "posting", ("halfway", "done"), range(REQUESTS)) for _ in range(PARTITIONS)),
    )


def run(place: Workplace) -> Findings:
    transfers, kills = plan_transfers(place.random, REQUESTS), plan_kills(place.random)
    truth = post_all(posting for transfer in transfers for posting in (transfer.debit, transfer.credit))
    place.say(f"{REQUESTS} transfers; every process is killed some times, and started again")
    banks = {way: [_open_accounts(place, number, p) for p in range(PARTITIONS)] for number, way in enumerate(WAYS)}
    derived, reports = _carry_out(place, transfers, kills, banks)
    rows = []
    for way, dsns in banks.items():
        own = [report for report in reports if report.worker.startswith(way)]
        balances = read_all(dsns)
        wrong = sum(balances[account] != truth[account] for account in truth)
        stopped = sum(report.said.get("is_new") is False for report in own)
        rows.append((way, sum(r.is_death for r in own), SUM, sum(balances.values()), wrong, stopped))
    (_, killed, _, less, *_), (_, _, _, more, *_), (_, often, _, kept, wrong, stopped) = rows
    return Findings(
        columns=("way", "killed", "sum before", "sum after", "accounts wrong", "stopped by id"),
        rows=tuple(rows),
        sentence=f"Killed {killed} times, a process that posts both sides lost {SUM - less} of {SUM} or made"
        f" {more - SUM}; through the log, killed {often} times, the sum is {kept} and {wrong} accounts are wrong: the"
        f" {stopped} postings that came again were known by their request.",
        figure=_draw(kills, derived, reports),
    )


def _open_accounts(place: Workplace, way: int, partition: int) -> str:
    """Make a database with the accounts of one partition."""
    dsn = place.database(f"transfer-{way}-{partition}")
    balances = {account: balance for account, balance in post_all([]).items() if find_partition(account) == partition}
    make_accounts(dsn, balances)
    return dsn


def _carry_out(
    place: Workplace, transfers: Sequence[Transfer], kills: Kills, banks: Mapping[str, list[str]]
) -> tuple[list[Message], list[LifeReport]]:
    """Log the requests, and carry them out each way; returns what was derived from them, and all reports."""
    requests, postings = place.topic("transfer-requests"), place.topic("transfer-postings", PARTITIONS)
    producer = place.producer()
    for transfer in transfers:
        producer.send(requests, value=json.dumps(asdict(transfer)))
    producer.flush()

    def read_from(topic: str, partition: int, end: int) -> dict[str, Any]:
        where = {"topic": topic, "partition": partition, "end": end}
        return {"bootstrap": place.parts.kafka_bootstrap, "group": place.group(f"transfer-{next(number)}"), **where}

    number = count()
    movers = []
    for way, is_first in ((LOSING, True), (MAKING, False)):
        moving = {"source": read_from(requests, 0, REQUESTS), "dsns": banks[way], "is_noted_first": is_first}
        movers.append(Worker(way, move, moving, kills.movers))
    deriving = {"source": read_from(requests, 0, REQUESTS), "postings": postings}
    reports = run_workers(place, [*movers, Worker(f"{LOGGED}: derivation", derive, deriving, kills.derivation)])
    derived = read_whole(place.consumer(), postings)
    ends = Counter(message.partition for message in derived)
    posters = [
        Worker(_name(p), post, {"source": read_from(postings, p, ends[p]), "dsn": dsn}, kills.posters[p])
        for p, dsn in enumerate(banks[LOGGED])
    ]
    return derived, reports + run_workers(place, posters)


def _name(partition: int) -> str:
    return f"{LOGGED}: partition {partition}"


def _draw(kills: Kills, derived: Sequence[Message], reports: Sequence[LifeReport]) -> LogFigure:
    """Draw the beginning of the log of requests, and of the postings that were derived from it."""
    killed = {int(point.split()[1].rstrip(",")) for point in kills.derivation}
    cells = tuple(Cell(n, f"r{n}", Tone.BAD if n in killed else Tone.PLAIN) for n in range(DRAWN))
    rows = [PartitionCells("requests", cells)]
    for partition in range(PARTITIONS):
        new = {each.said["offset"] for each in reports if each.worker == _name(partition) and each.said.get("is_new")}
        here = [message for message in derived if message.partition == partition][:DRAWN]
        postings = [Posting(**json.loads(str(message.value))) for message in here]
        cells = tuple(
            Cell(at.offset, f"r{each.request} {each.amount:+}", Tone.GOOD if at.offset in new else Tone.QUIET)
            for at, each in zip(here, postings, strict=True)
        )
        rows.append(PartitionCells(f"postings, partition {partition}", cells))
    title = "Red: killed between debit and credit, or behind both. Grey: posted before, known by its request"
    return LogFigure(title, tuple(rows))


LAB: Final = Lab(
    passages=(
        Passage(FIRST_FUTURE, "Aiming for Correctness", "Enforcing Constraints"),
        Passage(FIRST_FUTURE, "Aiming for Correctness", "Timeliness and Integrity"),
        Passage(SECOND_PHILOSOPHY, "Aiming for Correctness", "Enforcing Constraints"),
        Passage(SECOND_PHILOSOPHY, "Aiming for Correctness", "Timeliness and Integrity"),
    ),
    files=("cdc/log/whole_transactions.py", "sinks/lake/metadata/cuts.py"),
    parts=(Service.POSTGRES, Service.KAFKA),
    run=run,
)

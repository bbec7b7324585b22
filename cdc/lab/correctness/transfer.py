"""Money goes from an account of one partition to one of another, and no transaction spans both.

A process that posts both sides is killed between them, and money is lost or made. Through the log it is not: the
request is logged once with an id, both sides are derived from it, and each partition knows its postings.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness import bank
from cdc.lab.correctness.bank import PARTITIONS, Posting, Transfer
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.log import Cell, LogFigure
from cdc.lab.lesson import Findings
from cdc.lab.lives import Life, LifeReport, Worker, WorkerProcesses, plan_deaths
from cdc.lab.messages import Message, encode, read_whole, take_exactly
from cdc.lab.temporary import open_consumer, open_producer
from cdc.lab.workplace import Workplace

REQUESTS: Final = 24
DRAWN: Final = 18
SUM: Final = len(bank.ACCOUNTS) * bank.BEGINNING
WAYS: Final = (
    "position noted, then debit, credit",
    "credit, debit, then position noted",
    "through the log, by request id",
)
LOSING, MAKING, LOGGED = WAYS
Deaths = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A log that a process reads up to `end`, and the group that notes how far it has come."""

    bootstrap: str
    group: str
    log: TopicPartition
    end: int

    def open(self) -> AbstractContextManager[Any]:
        return open_consumer(self.bootstrap, self.log, group_id=self.group)

    def read(self, consumer: Any) -> Iterator[Message]:
        while consumer.position(self.log) < self.end:
            yield from take_exactly(consumer, 1)


def move(life: Life, source: SourceLog, dsns: Sequence[str], *, is_noted_first: bool) -> None:
    """Post both sides of each transfer, without its id, and note the position before them or behind."""
    databases = [psycopg.connect(dsn, autocommit=True) for dsn in dsns]
    with source.open() as consumer:
        for message in source.read(consumer):
            transfer = message.decode(Transfer)
            sides = transfer.sides if is_noted_first else transfer.sides[::-1]
            if is_noted_first:
                consumer.commit()
            for posting, point in zip(sides, ("halfway", "done"), strict=True):
                bank.add(databases[posting.partition], posting)
                life.pass_point(f"request {transfer.request}, {point}")
            if not is_noted_first:
                consumer.commit()


def derive(life: Life, source: SourceLog, postings: str) -> None:
    """Derive a debit and a credit from each request, with its id: the same again when it is repeated."""
    with source.open() as consumer, open_producer(source.bootstrap) as producer:
        for message in source.read(consumer):
            transfer = message.decode(Transfer)
            for posting, point in zip(transfer.sides, ("halfway", "done"), strict=True):
                producer.send(postings, value=encode(posting), partition=posting.partition).get(60)
                life.pass_point(f"request {transfer.request}, {point}")
            consumer.commit()


def post(life: Life, source: SourceLog, dsn: str) -> None:
    """Post to the accounts of one partition; a posting that is known by its request is not posted again."""
    with source.open() as consumer, psycopg.connect(dsn, autocommit=True) as database:
        for message in source.read(consumer):
            with database.transaction():
                is_new = bank.add_once(database, message.decode(Posting))
                life.pass_point(f"posting {message.offset}, halfway")
            life.report(offset=message.offset, is_new=is_new)
            life.pass_point(f"posting {message.offset}, done")
            consumer.commit()


def run(place: Workplace) -> Findings:
    transfers, kills = bank.plan_transfers(place.random, REQUESTS), plan_kills(place.random)
    truth = bank.post_all(posting for transfer in transfers for posting in transfer.sides)
    place.say(f"{REQUESTS} transfers; every process is killed some times, and started again")
    requests = place.publish(place.topic("transfer-requests"), transfers)
    halves = [bank.ACCOUNTS[number::PARTITIONS] for number in range(PARTITIONS)]
    banks = {
        way: [bank.open_accounts(place, f"transfer-{n}-{half[0]}", half) for half in halves]
        for n, way in enumerate(WAYS)
    }
    derived, reports = _carry_out(place, requests, kills, banks)
    rows = []
    for way, dsns in banks.items():
        own = [report for report in reports if report.worker.startswith(way)]
        balances = {account: n for dsn in dsns for account, n in bank.read_balances(place.session(dsn)).items()}
        wrong = sum(balances[account] != truth[account] for account in truth)
        stopped = sum(report.said.get("is_new") is False for report in own)
        rows.append((way, sum(r.is_death for r in own), SUM, sum(balances.values()), wrong, stopped))
    (_, killed, _, less, *_), (_, _, _, more, *_), (_, often, _, kept, wrong, stopped) = rows
    return Findings(
        columns=("way", "killed", "sum before", "sum after", "accounts wrong", "stopped by id"),
        rows=rows,
        sentence=f"Killed {killed} times, a process that posts both sides lost {SUM - less} of {SUM} or made"
        f" {more - SUM}; through the log, killed {often} times, the sum is {kept} and {wrong} accounts are wrong: the"
        f" {stopped} postings that came again were known by their request.",
        figure=_draw(kills[1], derived, reports),
    )


def plan_kills(random: Random) -> list[Deaths]:
    """Plan where the movers, the derivation and each poster are killed: halfway between two writes, and behind both."""
    return [
        plan_deaths(random, "request", ("halfway", "halfway", "done"), range(REQUESTS)),
        # early, so that the figure has them
        plan_deaths(random, "request", ("halfway", "done"), range(DRAWN // 2)),
        *(plan_deaths(random, "posting", ("halfway", "done"), range(REQUESTS)) for _ in range(PARTITIONS)),
    ]


def _carry_out(
    place: Workplace, requests: str, kills: Sequence[Deaths], banks: dict[str, list[str]]
) -> tuple[list[Message], list[LifeReport]]:
    """Carry out the requests each way; returns the messages that were derived from them, and all reports."""
    postings, (movers, derivation, *posters) = place.topic("transfer-postings", PARTITIONS), kills

    def read(group: str, log: TopicPartition, end: int = REQUESTS) -> SourceLog:
        return SourceLog(place.bootstrap, place.group(f"transfer-{group}"), log, end)

    log = TopicPartition(requests, 0)
    losing = partial(move, source=read("losing", log), dsns=banks[LOSING], is_noted_first=True)
    making = partial(move, source=read("making", log), dsns=banks[MAKING], is_noted_first=False)
    deriving = partial(derive, source=read("derivation", log), postings=postings)
    workers = [Worker(LOSING, losing, movers), Worker(MAKING, making, movers)]
    reports = WorkerProcesses(place, [*workers, Worker(f"{LOGGED}: derivation", deriving, derivation)]).wait()
    derived = read_whole(place.consumer(), postings)
    workers = []
    for number, (dsn, deaths) in enumerate(zip(banks[LOGGED], posters, strict=True)):
        end = sum(message.partition == number for message in derived)
        posting = partial(post, source=read(f"post-{number}", TopicPartition(postings, number), end), dsn=dsn)
        workers.append(Worker(_name(number), posting, deaths))
    return derived, reports + WorkerProcesses(place, workers).wait()


def _name(partition: int) -> str:
    return f"{LOGGED}: partition {partition}"


def _draw(kills: Deaths, derived: Sequence[Message], reports: Sequence[LifeReport]) -> LogFigure:
    """Draw the beginning of the log of requests, and of the postings that were derived from it."""
    killed = {int(point.split()[1].rstrip(",")) for point in kills}
    rows = {"requests": [Cell(n, f"r{n}", Tone.BAD if n in killed else Tone.PLAIN) for n in range(DRAWN)]}
    for partition in range(PARTITIONS):
        new = {each.said["offset"] for each in reports if each.worker == _name(partition) and each.said.get("is_new")}
        cells = rows[f"postings, partition {partition}"] = []
        for message in [each for each in derived if each.partition == partition][:DRAWN]:
            posting, tone = message.decode(Posting), Tone.GOOD if message.offset in new else Tone.QUIET
            cells.append(Cell(message.offset, f"r{posting.request} {posting.amount:+}", tone))
    title = "Red: killed between debit and credit, or behind both. Grey: posted before, known by its request"
    return LogFigure(title, rows)

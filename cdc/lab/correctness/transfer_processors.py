"""Who carries out transfers: one process for both accounts, or one that derives postings and one for each partition.

They are killed where they pass a point (`lives.py`). Each partition of accounts is a database of its own.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import psycopg
from kafka import TopicPartition

from cdc.lab.correctness.accounts import add, add_once
from cdc.lab.correctness.ledger import Posting, Transfer, find_partition
from cdc.lab.correctness.lives import Life
from cdc.lab.messages import Message, take_exactly
from cdc.lab.temporary import open_consumer, open_producer


def move(life: Life, *, source: dict[str, Any], dsns: list[str], is_noted_first: bool) -> None:
    """Post both sides of each transfer, without its id, and note the position before them or behind."""
    with ExitStack() as stack:
        consumer = stack.enter_context(_open(source))
        databases = [stack.enter_context(psycopg.connect(dsn, autocommit=True)) for dsn in dsns]
        for message in _read(consumer, source):
            transfer = Transfer(**json.loads(str(message.value)))
            sides = [transfer.debit, transfer.credit] if is_noted_first else [transfer.credit, transfer.debit]
            if is_noted_first:
                consumer.commit()
            for posting, point in zip(sides, ("halfway", "done"), strict=True):
                add(databases[find_partition(posting.account)], posting)
                life.pass_point(f"request {transfer.request}, {point}")
            if not is_noted_first:
                consumer.commit()


def derive(life: Life, *, source: dict[str, Any], postings: str) -> None:
    """Derive a debit and a credit from each request, with its id: the same again when it is repeated."""
    with _open(source) as consumer, open_producer(source["bootstrap"]) as producer:
        for message in _read(consumer, source):
            transfer = Transfer(**json.loads(str(message.value)))
            for posting, point in ((transfer.debit, "halfway"), (transfer.credit, "done")):
                value, partition = json.dumps(asdict(posting)), find_partition(posting.account)
                producer.send(postings, value=value, partition=partition).get(60)
                life.pass_point(f"request {transfer.request}, {point}")
            consumer.commit()


def post(life: Life, *, source: dict[str, Any], dsn: str) -> None:
    """Post what comes to the accounts of one partition; what is known by its request is not posted again."""
    with _open(source) as consumer, psycopg.connect(dsn, autocommit=True) as database:
        for message in _read(consumer, source):
            with database.transaction():
                is_new = add_once(database, Posting(**json.loads(str(message.value))))
                life.pass_point(f"posting {message.offset}, halfway")
            life.report(offset=message.offset, is_new=is_new)
            life.pass_point(f"posting {message.offset}, done")
            consumer.commit()


@contextmanager
def _open(source: dict[str, Any]) -> Iterator[Any]:
    with open_consumer(source["bootstrap"], group_id=source["group"]) as consumer:
        consumer.assign([TopicPartition(source["topic"], source["partition"])])
        yield consumer


def _read(consumer: Any, source: dict[str, Any]) -> Iterator[Message]:
    """Read one message after the other to the end, from where the group has come to."""
    while consumer.position(TopicPartition(source["topic"], source["partition"])) < source["end"]:
        yield from take_exactly(consumer, 1)

"""What happens to a part, a file or a topic: each a context, at whose end the fault is over."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from psycopg import sql

from cdc.connect.capture import connector
from cdc.connect.capture.offsets import forget_offsets
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, latest_topic, positions_topic, transaction_topic
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.search.settings import SearchSettings
from cdc.torture.faults.files import flip_bits
from cdc.torture.faults.processes import find_family, kill_all, stopped
from tests.cells.cell import Cell
from tests.cells.world import PARTS_OF, World
from tests.support.cdc_inprocess import catch_up
from tests.support.parts.kafka_partitions import add_partitions

HOLD_SECONDS: Final = 2.0
Fault = Callable[[World, Cell], Any]


@contextmanager
def kill_part(world: World, cell: Cell) -> Iterator[None]:
    """SIGKILL to a server and what it has started; it is started again at the end."""
    kill_all(_family(world, cell))
    try:
        yield
    finally:
        world.servers.start(PARTS_OF[cell.component])


def stop_part(world: World, cell: Cell) -> AbstractContextManager[None]:
    """SIGSTOP to a server and its children, SIGCONT at the end."""
    return stopped(_family(world, cell))


def _family(world: World, cell: Cell) -> list[psutil.Process]:
    family = find_family(world.home, PARTS_OF[cell.component])
    assert family, cell.component
    return family


@contextmanager
def cut_connection(world: World, cell: Cell) -> Iterator[None]:
    """Every connection ends, and nobody is let in until the end."""
    with world.proxies[cell.component].cut():
        yield


@contextmanager
def slow_connection(world: World, cell: Cell) -> Iterator[None]:
    """Each piece of what is sent takes a fifth of a second."""
    with world.proxies[cell.component].slowed(0.2):
        yield


def lake_of(world: World) -> Path:
    return world.pipeline.config.parent / "lake"


def state_of(world: World) -> Path:
    return Path(world.pipeline.settings.pipeline.state)


@contextmanager
def fill_disk(world: World, cell: Cell) -> Iterator[None]:
    """The lake's disk has no room."""
    del cell
    assert lake_of(world).is_mount(), "a small disk can only be mounted by root"
    ballast = lake_of(world) / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def lose_state(world: World, cell: Cell) -> Iterator[None]:
    del cell
    shutil.rmtree(state_of(world), ignore_errors=True)
    yield


@contextmanager
def put_state_back(world: World, cell: Cell) -> Iterator[None]:
    """The state folder, or its indexes alone, is as it was some batches ago."""
    folder = state_of(world) / "index" if cell.kind == "index old" else state_of(world)
    kept = world.pipeline.config.parent / "kept"
    shutil.copytree(folder, kept)
    catch_up(world.pipeline, world.spark)
    shutil.rmtree(folder)
    kept.rename(folder)
    yield


@contextmanager
def lose_indexes(world: World, cell: Cell) -> Iterator[None]:
    del cell
    for folder in _index_folders(world):
        shutil.rmtree(folder, ignore_errors=True)
    yield


def _index_folders(world: World) -> list[Path]:
    return sorted({file.parent for file in state_of(world).rglob("index.json")})


@contextmanager
def flip_index(world: World, cell: Cell) -> Iterator[None]:
    """Bits of every file of an index of keys are other ones."""
    del cell
    for folder in _index_folders(world):
        for file in folder.glob("run-*"):
            flip_bits(file, random.Random(3))
    yield


@contextmanager
def cut_index_off(world: World, cell: Cell) -> Iterator[None]:
    del cell
    for folder in _index_folders(world):
        for file in folder.glob("run-*"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    yield


@contextmanager
def lose_offsets(world: World, cell: Cell) -> Iterator[None]:
    """Connect forgets how far the connector was."""
    del cell
    with world.pipeline.opened() as opened, opened.open_connect() as client:
        name = world.pipeline.settings.connect.connector
        connector.halt(client, name)
        config = client.config(name) or {}
        forget_offsets(client, name, world.pipeline.settings.log)
        client.put(name, config)
        connector.resume(client, name)
    yield


@contextmanager
def drop_slot(world: World, cell: Cell) -> Iterator[None]:
    """Somebody drops the slot while the connector rests, and lets it go on."""
    del cell
    with world.pipeline.opened() as opened, opened.open_connect() as client:
        name = world.pipeline.settings.connect.connector
        connector.halt(client, name)
        drop = "SELECT pg_drop_replication_slot(%s)"
        with world.session() as session:
            session.execute(drop, (world.pipeline.settings.source.slot,))
        with suppress(Exception):
            connector.resume(client, name)
    yield


@contextmanager
def narrow_publication(world: World, cell: Cell) -> Iterator[None]:
    """For a while the publication sends inserts only."""
    del cell
    name = sql.Identifier(world.pipeline.settings.source.publication)
    set_to = "ALTER PUBLICATION {} SET (publish = {})"
    with world.session() as session:
        session.execute(sql.SQL(set_to).format(name, sql.Literal("insert")))
    try:
        yield
    finally:
        everything = sql.Literal("insert, update, delete, truncate")
        with world.session() as session:
            session.execute(sql.SQL(set_to).format(name, everything))


def topic_of(world: World, component: str) -> str:
    log = world.pipeline.settings.log
    orders = TableName("public", "orders")
    names = {
        "changes": change_topic(log.prefix, orders),
        "transactions": transaction_topic(log.prefix),
        "latest": latest_topic(log.prefix, orders),
        "positions": positions_topic(log.prefix),
        "matches": f"{log.prefix}.alerts-matches-present",
        "alerts": f"{log.prefix}.alerts-matches-position",
    }
    return names[component]


@contextmanager
def delete_topic(world: World, cell: Cell) -> Iterator[None]:
    topic = topic_of(world, cell.component)
    with Admin(world.pipeline.settings.log) as admin:
        assert topic in admin.topics([topic]), topic
        admin.delete_wholly([topic])
    yield


@contextmanager
def add_partition(world: World, cell: Cell) -> Iterator[None]:
    topic = topic_of(world, cell.component)
    with Admin(world.pipeline.settings.log) as admin:
        there = admin.topics([topic])[topic]
    add_partitions(world.pipeline, topic, there.partitions + 1)
    yield


def _indexes(world: World, cell: Cell) -> list[str]:
    follower = world.pipeline.settings.followers[cell.component]
    assert isinstance(follower, SearchSettings | PercolatorSettings)
    orders = index_name(follower.prefix, TableName("public", "orders"))
    url = world.pipeline.servers.values.search_url
    names = [each["index"] for each in httpx.get(f"{url}/_cat/indices?format=json&expand_wildcards=all").json()]
    own = sorted(
        name for name in names if name.startswith(orders) and (".queries" in name) == (cell.component == "alerts")
    )
    assert own, (orders, names)
    return own


@contextmanager
def close_index(world: World, cell: Cell) -> Iterator[None]:
    """Somebody closes indexes, and opens them again."""
    url, names = world.pipeline.servers.values.search_url, _indexes(world, cell)
    for name in names:
        httpx.post(f"{url}/{name}/_close").raise_for_status()
    try:
        yield
    finally:
        for name in names:
            httpx.post(f"{url}/{name}/_open").raise_for_status()


@contextmanager
def delete_index(world: World, cell: Cell) -> Iterator[None]:
    url, names = world.pipeline.servers.values.search_url, _indexes(world, cell)
    for name in names:
        httpx.delete(f"{url}/{name}").raise_for_status()
    yield


@contextmanager
def set_clock(world: World, cell: Cell) -> Iterator[None]:
    """This process's clock, as Python reads it, is an hour ahead, then an hour behind."""
    del world, cell
    plain = time.time
    time.time = lambda: plain() + 3600
    try:
        yield
    finally:
        time.time = lambda: plain() - 3600
        time.sleep(HOLD_SECONDS)
        time.time = plain


FAULTS: Final[dict[str, Fault]] = {
    "part killed": kill_part,
    "part stopped": stop_part,
    "connection cut": cut_connection,
    "connection slow": slow_connection,
    "disk full": fill_disk,
    "state lost": lose_state,
    "state old": put_state_back,
    "index old": put_state_back,
    "indexes lost": lose_indexes,
    "index flipped": flip_index,
    "index cut off": cut_index_off,
    "offsets lost": lose_offsets,
    "slot dropped": drop_slot,
    "publication narrowed": narrow_publication,
    "topic deleted": delete_topic,
    "partition added": add_partition,
    "index closed": close_index,
    "index deleted": delete_index,
    "clock set": set_clock,
}

"""One suite for every follower: the same history against it and against the model must end equal,
in any runs of whole transactions, repeated from anywhere, killed anywhere."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdc.core.table import TableName
from tests.contract.delta_harness import DeltaHarness
from tests.contract.followers import OTHERS, TABLES, Harness, MemoryHarness, batch_of, bookmark, end
from tests.contract.latest_harness import LatestHarness
from tests.contract.percolator_harness import PercolatorHarness
from tests.contract.search_harness import SearchHarness
from tests.support.examples import examples
from tests.support.further import further
from tests.support.histories import THINGS, Sent, histories
from tests.support.lake.places import in_folder, on_cloud, on_server
from tests.support.model import Change, CommitOrder, Insert, Key, Row, apply

COPY: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": f"old {n}"} for n in range(3)}

Start = Callable[[], Harness]


@pytest.fixture(
    params=[
        "memory",
        "delta",
        further("delta on an object store", "delta on an object store"),
        further("delta on azure", "delta on azure"),
        further("delta on google", "delta on google"),
        "search",
        "latest",
        "percolator",
    ]
)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Makes harnesses of one kind, each on new storage.

    An object store is the same follower on another storage, which `unit/lake/storage` tries, and all of the path
    `servers/cluster/test_object_store.py`.
    """
    if request.param == "memory":
        yield MemoryHarness
        return
    if request.param.startswith("delta"):
        yield _start_delta(request, tmp_path_factory)
        return
    spark = request.getfixturevalue("spark")
    match request.param:
        case "search":
            url = request.getfixturevalue("search_url")
            yield lambda: SearchHarness(spark, url, _fresh_name())
        case "latest":
            bootstrap = request.getfixturevalue("kafka_bootstrap")
            yield lambda: LatestHarness(spark, bootstrap, _fresh_name())
        case "percolator":
            bootstrap, url = request.getfixturevalue("kafka_bootstrap"), request.getfixturevalue("search_url")
            yield lambda: PercolatorHarness(spark, bootstrap, url, _fresh_name())


def _start_delta(request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Start:
    if request.param == "delta":
        return lambda: DeltaHarness(in_folder(folders.mktemp("lake")))
    if request.param == "delta on an object store":
        server = request.getfixturevalue("s3_server")
        return lambda: DeltaHarness(on_server(server, folders.mktemp("lake")))
    cloud = request.getfixturevalue(f"{request.param.removeprefix('delta on ')}_server")
    return lambda: DeltaHarness(on_cloud(cloud, folders.mktemp("lake")))


def _fresh_name() -> str:
    return f"c{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Step:
    """Apply the transactions `first` up to `last`, as one batch; maybe dying inside, maybe restarting after."""

    first: int
    last: int
    crash: bool
    restart: bool


def two_tables(first: list[Sent], second: list[Sent]) -> list[tuple[int, Sent]]:
    """Two histories as one: transaction n changes both tables, numbered from 1, ranks as the log has them."""
    merged = []
    for number in range(1, max(len(first), len(second)) + 1):
        changes: list[Change] = []
        for sent, table in ((first, THINGS.name), (second, OTHERS.name)):
            for change in sent[number - 1].changes if number <= len(sent) else ():
                place = CommitOrder(end(number).offset, len(changes) + 1)
                changes.append(replace(change, table=table, place=place))
        merged.append((number, Sent(tuple(changes), {})))
    return merged


@st.composite
def plays(draw: st.DrawFn) -> tuple[list[tuple[int, Sent]], list[Step], int]:
    """A history, the batches that bring it to the follower, and the number of the last transaction in the copy."""
    history = two_tables(draw(histories(COPY)), draw(histories(COPY)))
    steps: list[Step] = []
    reached, ahead = 0, 0
    while reached < len(history):
        last = draw(st.integers(max(reached + 1, ahead), len(history)))
        first = draw(st.integers(1, reached + 1))
        crash = draw(st.booleans())
        steps.append(Step(first, last, crash, draw(st.booleans())))
        ahead = last if crash else 0
        reached = reached if crash and draw(st.booleans()) else last
        if crash and reached < last:
            continue
        if crash:
            steps.append(Step(first, last, crash=False, restart=False))
    return history, steps, draw(st.integers(0, len(history)))


def expected(history: list[tuple[int, Sent]], table: TableName) -> dict[Key, Row]:
    return apply(COPY, [c for _, sent in history for c in sent.changes if c.table == table])


def check(start: Start, play: tuple[list[tuple[int, Sent]], list[Step], int]) -> None:
    history, steps, in_copy = play
    follower = start()
    for table in TABLES:
        follower.load(table, expected(history[:in_copy], table.name), bookmark(10 * in_copy))
    for step in steps:
        batch, position = batch_of(history[step.first - 1 : step.last])
        (follower.crash_in_apply if step.crash else follower.apply)(batch, position)
        if step.crash or step.restart:
            follower.restart()
    for table in TABLES:
        assert follower.rows(table) == expected(history, table.name)
    last = follower.position()
    assert (last.end_offset if last else None) == (end(len(history)).offset if history else None)


quiet: dict[str, Any] = {"suppress_health_check": list(HealthCheck)}
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A batch of Delta takes seconds: a failure is printed as it was found."""


@settings(examples(300), **quiet)
@given(play=plays())
def test_memory_follower_equals_the_model(play: tuple[list[tuple[int, Sent]], list[Step], int]) -> None:
    check(MemoryHarness, play)


@settings(max_examples=5, phases=UNSHRUNK, **quiet)
@given(play=plays())
def test_follower_equals_the_model(start: Start, play: tuple[list[tuple[int, Sent]], list[Step], int]) -> None:
    check(start, play)


def test_second_load_replaces_the_first(start: Start) -> None:
    follower = start()
    follower.load(THINGS, COPY, bookmark(5))
    less = {key: row for key, row in COPY.items() if key != (1,)}
    follower.load(THINGS, less, bookmark(7))
    assert follower.rows(THINGS) == less
    assert follower.bookmarks()[THINGS.name] == bookmark(7)


@pytest.mark.parametrize("start", ["search", "latest", "percolator"], indirect=True)
def test_a_table_copied_behind_a_batch_that_was_cut_off_gets_its_changes(start: Start) -> None:
    """A rebuild writes tables again as of the follower's position: what it has of the next batch goes with them."""
    history = [(number, _insert(number)) for number in (1, 2)]
    follower = start()
    for table in TABLES:
        follower.load(table, {}, bookmark(0))
    follower.apply(*batch_of(history[:1]))
    follower.crash_in_apply(*batch_of(history[1:]))
    follower.restart()
    follower.load(THINGS, {(11,): {"id": 11, "small": 1, "big": "new"}}, bookmark(10))
    follower.apply(*batch_of(history[1:]))
    for table in TABLES:
        assert [*sorted(follower.rows(table))] == [(11,), (12,)]


def _insert(number: int) -> Sent:
    """A transaction that adds a row to each table."""
    id = 10 + number
    row: Row = {"id": id, "small": number, "big": "new"}
    rank = end(number).offset
    return Sent(tuple(Insert(t.name, CommitOrder(rank, n), (id,), row) for n, t in enumerate(TABLES, 1)), {})

"""A window that closes has what was there when it closed, whatever comes later and however it is applied."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import ConfigurationError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import FURTHER, SEQUENCE, history_table
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.final_windows import find_closing_window, list_read_tables, select_late

CLICKS = Table(
    TableName("public", "clicks"),
    (Column("id", Kind.INTEGER), Column("page", Kind.TEXT), Column("At", Kind.TIMESTAMPTZ)),
    ("id",),
)
HISTORY = history_table(CLICKS)
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = ViewDefinition.of(
    "clicks.minutes",
    "SELECT window.start AS minute,\n count(*) AS clicks FROM clicks c"
    " GROUP BY window(c.at, '1 minute', '1 minute', '5 seconds')",
    ["minute"],
    "2 minutes",
)
SIZE, OFFSET, FINAL_AFTER = timedelta(minutes=1), timedelta(seconds=5), timedelta(minutes=2)
Version = dict[str, Any]


def begin_of(at: datetime) -> datetime:
    return START + (at - START - OFFSET) // SIZE * SIZE + OFFSET


def random_versions(random: Random) -> list[Version]:
    """A history of few rows, which come and go."""
    versions, there, committed = list[Version](), set[int](), START
    for number in range(1, 40):
        committed += timedelta(seconds=random.randrange(20))
        key = random.randrange(8)
        change = "update" if key in there else "insert"
        if key in there and random.random() < 0.3:
            change = random.choice(["delete", "truncate"])
        elif random.random() < 0.1:
            change = "copy"
        there = there - {key} if change in ("delete", "truncate") else there | {key}
        at = committed - timedelta(seconds=random.choice([0, 1, 30, 100, 179, 185, 400]))
        row = {"page": "a", "At": at} if key in there else {"page": None, "At": None}
        further = {"_change": change, "_committed_at": committed, "_lsn": number, SEQUENCE: number}
        versions.append({"id": key, **row, **further})
    return versions


def counts_at_the_end(versions: list[Version]) -> dict[datetime, int]:
    """Of each window, how many rows the table had in it when it closed."""
    windows = {begin_of(version["At"]) for version in versions if version["At"]}
    counts = {begin: count_at(versions, begin) for begin in windows}
    return {begin: count for begin, count in counts.items() if count}


def count_at(versions: list[Version], begin: datetime) -> int:
    closes, last = begin + SIZE + FINAL_AFTER, dict[int, Version]()
    for version in versions:
        if version["_change"] == "copy" or version["_committed_at"] < closes:
            last[version["id"]] = version
    return sum(version["At"] is not None and begin_of(version["At"]) == begin for version in last.values())


def run(compiled: CompiledView, rows: Mapping[TableName, pa.Table]) -> list[tuple[Any, ...]]:
    assert isinstance(compiled.duckdb, DuckStatement), compiled.duckdb
    found = Evaluator().evaluate(compiled.duckdb.sql, {compiled.names[name]: each for name, each in rows.items()})
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def to_arrow(versions: list[Version]) -> dict[TableName, pa.Table]:
    return {HISTORY.name: pa.Table.from_pylist(versions, arrow_schema(HISTORY))}


@pytest.mark.parametrize("seed", range(20))
def test_a_window_has_what_was_there_when_it_closed(seed: int) -> None:
    versions, compiled = random_versions(Random(seed)), compile_view(MINUTES, {HISTORY.name: HISTORY})
    assert not compiled.plan.whole
    found = {begin.replace(tzinfo=UTC): count for begin, count in run(compiled, to_arrow(versions))}
    assert found == counts_at_the_end(versions)
    # what comes later changes none that has closed
    closed = versions[-1]["_committed_at"] - SIZE - FINAL_AFTER
    earlier = {begin: count for begin, count in found.items() if begin <= closed}
    more = [*versions, *({**each, SEQUENCE: 100 + each[SEQUENCE]} for each in later(versions, Random(seed)))]
    again = {begin.replace(tzinfo=UTC): count for begin, count in run(compiled, to_arrow(more))}
    assert {begin: count for begin, count in again.items() if begin <= closed} == earlier


def later(versions: list[Version], random: Random) -> list[Version]:
    shift = versions[-1]["_committed_at"] - START + timedelta(seconds=1)
    more = [each for each in random_versions(random) if each["_change"] != "copy"]
    return [{**each, "_committed_at": each["_committed_at"] + shift} for each in more]


@pytest.mark.parametrize("seed", range(5))
def test_what_came_too_late_is_kept(seed: int) -> None:
    versions, closing = random_versions(Random(seed)), find_closing_window(MINUTES)
    assert closing
    late = ViewDefinition.of("clicks.minutes_late", select_late(closing), [SEQUENCE])
    compiled = compile_view(late, {HISTORY.name: HISTORY})
    place = [name for name in HISTORY.column_names if name not in ("_batch", "_chain")].index(SEQUENCE)
    found = {row[place] for row in run(compiled, to_arrow(versions))}
    assert found == {
        version[SEQUENCE]
        for version in versions
        if version["_change"] in ("insert", "update")
        and version["_committed_at"] >= begin_of(version["At"]) + SIZE + FINAL_AFTER
    }
    assert found


def test_the_history_is_read_in_place_of_the_table() -> None:
    assert list_read_tables(MINUTES) == [HISTORY.name]
    outputs = compile_view(MINUTES, {HISTORY.name: HISTORY}).outputs
    assert {column.name for column in FURTHER}.isdisjoint(output.name for output in outputs)


@pytest.mark.parametrize(
    ("sql", "final_after", "told"),
    [
        ("SELECT id FROM clicks", "1 minute", r"final_after needs one window\(\), it has 0"),
        ("SELECT count(*) FROM clicks GROUP BY window(at, '2 minutes', '1 minute')", "1 minute", "needs window"),
        ("SELECT count(*) FROM clicks GROUP BY session_window(at, '2 minutes')", "1 minute", "needs window"),
        ("SELECT count(*) FROM (SELECT at FROM clicks) GROUP BY window(at, '1 minute')", "1 minute", "of a table"),
        ("SELECT count(*) FROM clicks GROUP BY window(at, '1 minute')", "1 month", "1 month is no duration"),
    ],
)
def test_a_window_that_cannot_close_is_refused(sql: str, final_after: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        find_closing_window(ViewDefinition.of("v.v", sql, ["id"], final_after))

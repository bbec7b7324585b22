"""Changes that are no small files of change data are read part by part: a copy under the same id, a TRUNCATE."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.columns.feed import FeedRows
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.delta import scan
from cdc.sinks.lake.feed import commit_changes, feed, named_keys
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut
from tests.support.histories import THINGS
from tests.support.lake.cut_lake import CutLake
from tests.support.lake.places import in_folder
from tests.support.lake.tables import row
from tests.support.model import Key, Row

WORDS = Table(TableName("public", "words"), (Column("word", Kind.TEXT), Column("big", Kind.TEXT)), ("word",))
"""Its keys are hashed."""
PART_ROWS = 3
KEYS = range(14)
Rows = dict[Key, Row]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scan, commit_changes):
        monkeypatch.setattr(module, "PART_ROWS", PART_ROWS)
    monkeypatch.setattr(named_keys, "RUN_KEYS", 4)
    monkeypatch.setattr(feed, "MERGED_BYTES", 0)


def read_parts(lake: CutLake, table: Table, since: Cut, until: Cut) -> list[FeedRows]:
    return [*LakeFeed(None, lake.lake).changes(table, since, until)]


def apply_parts(rows: Rows, table: Table, parts: Sequence[FeedRows]) -> Rows:
    """The rows after these parts, in whatever order they are applied: none names a key of another one."""
    after, named = dict(rows), set[Key]()
    for part in reversed(parts):
        put = {tuple(each[name] for name in table.key): each for each in part.rows.to_pylist()}
        gone = {tuple(each.values()) for each in part.gone.to_pylist()}
        assert len(part) == len(put) + len(gone) == len({*put} | gone)
        assert not named & ({*put} | gone)
        named |= {*put} | gone
        after = {key: each for key, each in after.items() if key not in gone} | put
    return after


def put(lake: CutLake, table: Table, key: int, text: str) -> None:
    lake.put(table.name.table, row(key, text) if table is THINGS else {"word": f"w{key}", "big": text})


def delete(lake: CutLake, table: Table, key: int) -> None:
    lake.delete(table.name.table, (key,) if table is THINGS else (f"w{key}",))


@pytest.mark.parametrize("table", [THINGS, WORDS], ids=["packed keys", "hashed keys"])
@pytest.mark.parametrize("is_copied", [True, False], ids=["copied", "truncated"])
def test_a_table_that_is_replaced_is_read_part_by_part(tmp_path: Path, table: Table, is_copied: bool) -> None:
    lake, name = CutLake(in_folder(tmp_path), [table]), table.name.table
    for key in range(40):
        put(lake, table, key, "before")
        since = lake.cut() if key % 10 == 9 else None
    assert since
    before = dict(lake.rows[name])
    if is_copied:
        lake.rows[name] = {key: {**each, "big": "after"} for key, each in [*before.items()][5:]}
        lake.copy(table)
    else:
        lake.truncate(name)
    until = lake.cut()
    parts = read_parts(lake, table, since, until)
    assert apply_parts(before, table, parts) == lake.rows[name]
    # the files of four commits, of ten rows each; and the copy's one file of 35
    assert max(map(len, parts)) <= PART_ROWS
    assert sum(map(len, parts)) == 40
    assert len(parts) >= 40 // PART_ROWS


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)),
        st.tuples(st.just("delete"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["truncate", "copy", "cut"]), st.just(list[int]())),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=40)
@given(table=st.sampled_from([THINGS, WORDS]), steps=steps)
def test_several_versions_become_the_last_state_of_each_key(
    table: Table, steps: Sequence[tuple[str, Sequence[int]]]
) -> None:
    with TemporaryDirectory() as folder:
        lake, name = CutLake(in_folder(Path(folder)), [table]), table.name.table
        states = [(lake.cut(), dict(lake.rows[name]))]
        for number, (step, keys) in enumerate([*steps, ("cut", [])]):
            for key in keys:
                (put(lake, table, key, f"at {number}") if step == "put" else delete(lake, table, key))
            if step == "truncate":
                lake.truncate(name)
            elif step in {"cut", "copy"}:
                states.append((lake.cut(), dict(lake.rows[name])))
            if step == "copy":
                lake.rows[name] = {key: {**each, "big": f"copied {number}"} for key, each in lake.rows[name].items()}
                lake.copy(table)
        for (since, before), (until, after) in [*pairwise(states), (states[0], states[-1])]:
            parts = read_parts(lake, table, since, until)
            assert apply_parts(before, table, parts) == after
            assert all(len(part) <= PART_ROWS for part in parts)

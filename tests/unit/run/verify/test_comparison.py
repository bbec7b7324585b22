"""Prints of two sides are compared as a dictionary would compare them, whatever moved, and whatever was spoilt."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.columns.rows.compare import DIFFERING, EXTRA, MISSING, TWICE
from cdc.columns.rows.row_prints import (
    LONGEST_NAME,
    Names,
    StoredRows,
    digest_stored,
    find_nulls,
    keep_newest,
    print_names,
    print_rows,
    select_among,
)
from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.run.status.things import to_time
from cdc.run.verify.kept_results import describe
from cdc.run.verify.report import DIFFERENT, EQUAL, MOVED, STOPPED, Report
from cdc.run.verify.rolling.comparison import NameDifferences, compare_prints
from cdc.run.verify.rolling.look import MOST_TEXTS, Look, PrintedSide, Texts
from cdc.run.verify.rolling.print_files import BUCKETS, PrintFiles, bucket_of, split_names
from cdc.run.verify.rolling.table_turn import MOST_LOOKS, take_turn
from cdc.sinks.opensearch.bulk import shorten

KEYS = st.integers(0, 12)
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 2)), max_size=30)


def stored(rows: Sequence[tuple[int, int | None]]) -> StoredRows:
    documents = [None if value is None else str(value).encode() for _, value in rows]
    return StoredRows(lambda: [str(key).encode() for key, _ in rows], documents)


def named(*keys: int) -> Names:
    return print_names(str(key).encode() for key in keys)


def to_keys(found: NameDifferences) -> Mapping[str, set[int]]:
    """The kinds of differences, with the keys that have these names."""
    known = {named(key).tobytes(): key for key in range(13)}
    return {kind: {known[name.tobytes()] for name in names} for kind, names in found.kinds.items()}


@given(st.dictionaries(KEYS, st.integers(0, 2)), ROWS, st.sets(KEYS))
def test_what_differs_is_what_differs_row_by_row(
    source: dict[int, int], follower: list[tuple[int, int]], moved: set[int]
) -> None:
    found = compare_prints(print_rows(stored([*source.items()])), print_rows(stored(follower)), named(*moved))
    times, own = Counter(key for key, _ in follower), dict(follower)
    expected = {
        MISSING: {key for key in source if not times[key]},
        EXTRA: {key for key in times if key not in source},
        TWICE: {key for key in source if times[key] > 1},
        DIFFERING: {key for key in source if times[key] == 1 and own[key] != source[key]},
    }
    left = {kind: keys - moved for kind, keys in expected.items()}
    assert to_keys(found) == {kind: keys for kind, keys in left.items() if keys}
    assert len(found.moved) == len(moved)
    assert (found.source_rows, found.follower_rows) == (len(source), len(follower))


@given(ROWS, ROWS)
def test_rows_without_a_key_are_counted(source: list[tuple[int, int]], follower: list[tuple[int, int]]) -> None:
    """Each is named by the whole of it."""
    sides = [Counter(key for key, _ in rows) for rows in (source, follower)]
    ours, theirs = (print_rows(stored([(key, key) for key, _ in rows])) for rows in (source, follower))
    found = to_keys(compare_prints(ours, theirs, named(), keyed=False))
    assert found.get(MISSING, set()) == set(sides[0] - sides[1])
    assert found.get(EXTRA, set()) == set(sides[1] - sides[0])


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 2)))))
def test_of_a_log_the_newest_rows_count(records: list[tuple[int, int | None]]) -> None:
    newest = {key: value for key, value in dict(records).items() if value is not None}
    found = compare_prints(print_rows(stored([*newest.items()])), keep_newest(print_rows(stored(records))), named())
    assert not found.kinds
    assert found.follower_rows == len(newest)
    logged = replace(stored(records), is_log=True)
    with patch("cdc.columns.rows.row_prints.LOGGED", 3):
        parts = [replace(stored([record]), is_log=True) for record in records]
        assert digest_stored(parts) == digest_stored([logged])
    assert digest_stored([stored([*newest.items()]), stored([])]) == digest_stored([logged])


@given(ROWS, ROWS)
def test_digests_are_equal_where_the_rows_are_in_any_order(
    ours: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """Rows that come twice count twice, and no name is asked for."""
    digests = [digest_stored([replace(stored(rows), names=_refuse), stored([])]) for rows in (ours, theirs)]
    values = [Counter(value for _, value in rows) for rows in (ours, theirs)]
    assert (digests[0] == digests[1]) == (values[0] == values[1])
    assert digests[0].rows == len(ours)


def _refuse() -> Sequence[bytes]:
    raise AssertionError("names of rows that are no log cost time, and no digest needs them")


def test_names_that_share_half_of_their_bits_are_told_apart() -> None:
    """Sorted by that half only, records of the one would stand between those of the other."""
    first, second = [7, 1], [7, 2]
    log = np.array([[*first, 1, 1], [*second, 2, 2], [*first, 3, 3], [*second, 0, 0]], np.uint64)
    assert keep_newest(log).tolist() == [[*first, 3, 3]]


@settings(max_examples=20)
@given(st.lists(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), max_size=40), max_size=4))
def test_files_give_back_each_row_once_in_its_bucket(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[int, int]]]
) -> None:
    files = PrintFiles(tmp_path_factory.mktemp("prints") / "side")
    for part in parts:
        files.add(print_rows(stored(part)))
    every = print_rows(stored([row for part in parts for row in part]))
    buckets = [*files.read()]
    assert len(buckets) == BUCKETS
    for number, (found, names) in enumerate(zip(buckets, split_names(every[:, :2]), strict=True)):
        assert set(bucket_of(found).tolist()) <= {number}
        # in the order in which they came
        assert found.tolist() == every[bucket_of(every) == number].tolist()
        assert found[:, :2].tolist() == names.tolist()


def test_a_long_name_is_the_hash_that_an_index_has_in_its_place() -> None:
    names = ["x" * LONGEST_NAME, "x" * (LONGEST_NAME + 1)]
    held = [name.encode() for name in shorten(pa.array(names)).to_pylist()]
    assert held[1] != names[1].encode()
    assert print_names(name.encode() for name in names).tolist() == print_names(held).tolist()


class Looks:
    """Looks that find what is given, one after the other; which names were asked for."""

    def __init__(self, *found: Mapping[str, Look]) -> None:
        self._found = [*found]
        self.asked: list[Names | None] = []
        self.among: list[Collection[str] | None] = []

    def __call__(self, only: Names | None, among: Collection[str] | None) -> tuple[Lsn, Mapping[str, Look]]:
        self.asked.append(only)
        self.among.append(among)
        return Lsn(len(self.asked)), self._found.pop(0)


def seen(*, moved: Sequence[int] = (), **kinds: Sequence[int]) -> Look:
    return Look(NameDifferences(9, 9, {kind: named(*keys) for kind, keys in kinds.items()}, named(*moved)))


def test_what_differs_is_looked_at_again_and_only_then_a_fault() -> None:
    """The log has a commit before the source shows it: the first look alone proves nothing."""
    looks = Looks({"lake": seen(missing=[1, 2], moved=[3])}, {"lake": seen(missing=[2])})
    _, found = take_turn(looks, 9, settles=False)
    comparison = found["lake"].comparison
    assert comparison is not None
    assert (comparison.missing, found["lake"].moved, found["lake"].word) == (1, 0, DIFFERENT)
    asked = looks.asked[1]
    assert asked is not None
    rows = print_rows(stored([(n, 0) for n in range(5)]))
    assert select_among(rows, asked).nonzero()[0].tolist() == [1, 2, 3]


def test_what_moves_is_left_to_the_next_turn() -> None:
    looks = Looks({"lake": seen(moved=[3, 4])})
    _, found = take_turn(looks, 9, settles=False)
    assert (found["lake"].word, found["lake"].moved) == (MOVED, 2)


def test_what_moves_is_settled_where_somebody_waits() -> None:
    looks = Looks(
        {"lake": seen(moved=[3, 4, 5]), "search": seen(moved=[3, 4, 5, 6])},
        {"lake": seen(moved=[4, 7]), "search": seen(differing=[6], moved=[4, 7])},
        {"lake": seen(), "search": seen()},
    )
    _, found = take_turn(looks, 9, settles=True)
    assert (found["lake"].word, found["search"].word) == (EQUAL, DIFFERENT)
    # 7 had a verdict already
    assert not found["lake"].moved


def test_what_never_rests_is_told() -> None:
    looks = Looks(*[{"lake": seen(moved=[1])}] * MOST_LOOKS)
    lsn, found = take_turn(looks, 9, settles=True)
    assert (lsn, found["lake"].word, found["lake"].moved) == (MOST_LOOKS, MOVED, 1)
    assert found["lake"].as_json()["moved_keys"] == 1
    report = Report(lsn, {"lake": {TableName("a", "b"): found["lake"]}})
    assert not report.is_equal
    with pytest.raises(PreconditionError, match="while they were compared"):
        report.check_equal()


def test_a_follower_that_does_not_answer_ends_no_others_comparison() -> None:
    down = Look(error=PreconditionError("it does not answer", "start it"))
    _, found = take_turn(Looks({"lake": seen(), "search": down}), 9, settles=True)
    assert (found["lake"].word, found["search"].word) == (EQUAL, STOPPED)
    looks = Looks({"lake": seen(missing=[1]), "search": seen(missing=[1])}, {"lake": seen(missing=[1]), "search": down})
    _, found = take_turn(looks, 9, settles=False)
    assert (found["lake"].word, found["search"].word) == (DIFFERENT, STOPPED)


def test_prints_of_nothing_are_nothing() -> None:
    empty = print_rows(stored([]))
    assert not compare_prints(empty, keep_newest(empty), named()).kinds
    assert empty.shape == (0, 4)
    assert np.asarray(named()).shape == (0, 2)


def texts_of(side: Mapping[int, str]) -> Texts:
    return {named(key).tobytes(): (f'{{"id":{key}}}'.encode(), text.encode()) for key, text in side.items()}


def seen_texts(source: Mapping[int, str], follower: Mapping[int, str]) -> Look:
    """A later look at all of these documents, of which each differs."""
    found = NameDifferences(9, 9, {DIFFERING: named(*source)})
    return Look(found, texts_of(source), texts_of(follower), ("id", "a", "b"))


def test_a_document_from_before_a_change_of_the_table_is_none_that_differs() -> None:
    """It lacks a new column, which is null in the others, or has one that is gone."""
    source = {1: '{"id":1,"a":"x","b":null}', 2: '{"id":2,"a":"x","b":null}', 3: '{"id":3,"a":"x","b":1}', 4: "{}"}
    follower = {1: '{"id":1,"a":"x"}', 2: '{"id":2,"a":"x","gone":7}', 3: '{"id":3,"a":"y"}', 4: "no document"}
    look = seen_texts(source, follower).check_texts()
    assert to_keys(look.found) == {DIFFERING: {3, 4}}
    assert [(each.key, each.columns) for each in look.describe(9)] == [
        ({"id": "3"}, ("a", "b")),
        ({"id": "4"}, ("id", "a", "b")),
    ]
    assert len(look.describe(1)) == 1
    # what nobody has kept the texts of is not decided
    left = seen_texts({1: source[1]} | {5: "{}"}, {1: follower[1]}).check_texts()
    assert (to_keys(left.found), len(left.unsure)) == ({}, 1)


def test_nulls_of_columns_are_left_out_and_nothing_in_a_text() -> None:
    nulls = find_nulls(["a", 'b"', "c"])
    rows = [
        b'{"id":1,"a":null,"c":2}',
        b'{"id":1,"c":2}',
        b'{"id":1,"c":2,"b\\"":null}',
        b'{"id":1,"t":",\\"a\\":null"}',
    ]
    prints = print_rows(StoredRows(lambda: [b"1"] * 4, rows), nulls)
    assert (prints[:3] == prints[0]).all()
    assert (prints[3] == print_rows(StoredRows(lambda: [b"1"], [rows[3]]))[0]).all()


def test_texts_are_kept_of_few_rows_and_of_a_log_the_last(tmp_path: Path) -> None:
    side = PrintedSide(PrintFiles(tmp_path / "side"), find_nulls([]))
    side.take(stored([(1, 1), (2, 2)]), None)
    assert not side.texts
    side.take(stored([(1, 1), (2, 2), (1, 3)]), named(1))
    assert side.texts == {named(1).tobytes(): (b"1", b"3")}
    many = range(MOST_TEXTS + 9)
    side.take(stored([(key, key) for key in many]), named(*many))
    assert len(side.texts) == MOST_TEXTS


def look_at_sides(folder: Path, source: StoredRows, follower: StoredRows, only: Names | None) -> Look:
    """A look at two sides that nobody changes."""
    number = len([*folder.iterdir()])
    sides = [PrintedSide(PrintFiles(folder / f"{number} {side}"), find_nulls([])) for side in "ab"]
    for side, rows in zip(sides, (source, follower), strict=True):
        side.take(rows, only)
    found = NameDifferences()
    for ours, theirs in zip(*(side.files.read() for side in sides), strict=True):
        found += compare_prints(ours, theirs, named())
    look = Look(found, sides[0].texts, sides[1].texts, ["id", "v"])
    return look if only is None else look.check_texts()


def documents(keys: Iterable[int], text: str) -> StoredRows:
    every = [*keys]
    return StoredRows(lambda: [f'{{"id":{key}}}'.encode() for key in every], [text.encode() for _ in every])


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("wrong", ['{"v":2}', '{"v":1,"gone":7}'])
def test_more_rows_than_texts_are_never_equal_unseen(
    wrong: str, settles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each side is read in an order of its own; rows that nobody could tell from older ones are not taken for equal."""
    monkeypatch.setattr("cdc.run.verify.rolling.look.MOST_TEXTS", 50)
    for count in (150, 500):
        ours, theirs = documents(range(count), '{"v":1}'), documents(reversed(range(count)), wrong)

        def look(
            only: Names | None, _: Collection[str] | None, sides: tuple[StoredRows, StoredRows] = (ours, theirs)
        ) -> tuple[Lsn, dict[str, Look]]:
            return Lsn(1), {"index": look_at_sides(tmp_path, *sides, only)}

        _, found = take_turn(look, 9, settles=settles)
        told = (found["index"].word, describe(found["index"], to_time(0.0)).verdict)
        is_shape_alone = "gone" in wrong
        if is_shape_alone and count == 500:
            assert told == (MOVED, MOVED)
        else:
            assert told == ((EQUAL, EQUAL) if is_shape_alone else (DIFFERENT, DIFFERENT))


def test_a_name_that_another_follower_asks_for_is_told_once() -> None:
    """A fault of one follower is in its later looks, too, where another's names are looked at again."""
    fault, moves = replace(seen(missing=[1]), source=texts_of({1: "{}"})), seen(moved=[2])
    looks = Looks(*[{"lake": fault, "search": moves}] * (MOST_LOOKS - 1), {"lake": fault, "search": seen()})
    _, found = take_turn(looks, 9, settles=True)
    comparison = found["lake"].comparison
    assert comparison is not None
    assert (comparison.missing, len(comparison.keys)) == (1, 1)

"""One comparison's trouble is its own: the others are compared, and the exit code says that one was not."""

import errno
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cdc.columns.rows.compare import Comparison
from cdc.columns.rows.digest import Digest
from cdc.config.settings import VIEWS
from cdc.core.errors import HistoryLostError, PreconditionError, TableLostError, UnreachableError
from cdc.core.position import Lsn, Position
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.verify import history_comparison
from cdc.run.verify.pinned_source import FollowerReader, PinnedSource
from cdc.run.verify.report import Report, Verdict
from cdc.run.verify.view_comparison import ViewComparison
from cdc.views.definition import ViewDefinition
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tracked import TrackedLake
from tests.unit.config.test_settings import made
from tests.unit.run.test_kept_histories import settings_of

EQUAL = Verdict(Comparison(1, 1))
SPARK = cast("SparkSession", object())
ALONE = [
    KeyError("n"),
    StopIteration(),
    RecursionError("maximum recursion depth exceeded"),
    Py4JError("An error occurred while calling o13.collectToPython.\n: a.B: no such thing\n\tat c"),
    HistoryLostError("the lake has lost it", "copy it again"),
    TableLostError(TableName("a", "bad"), "it is gone from the lake"),
]
OF_ALL = [UnreachableError("the store does not answer"), OSError(errno.ENOSPC, "no room")]
OTHERS = Table(TableName("public", "others"), THINGS.columns, THINGS.key)


def is_equal(verdict: Verdict) -> bool:
    return replace(verdict, history_of=None) == EQUAL


def check_told(verdicts: Mapping[str, Mapping[TableName, Verdict]], bad: str) -> None:
    """All but one are equal; that one is told by its name in one line, and by the exit code."""
    report = Report(Lsn(1), verdicts)
    assert len(report.follower_stops) == len(verdicts)
    for line in report.follower_stops:
        assert f"{bad} cannot be compared: " in line
        assert "\n" not in line
    assert all(is_equal(v) for by in verdicts.values() for name, v in by.items() if str(name) not in bad)
    assert sum(is_equal(v) for by in verdicts.values() for v in by.values()) == len(verdicts)
    with pytest.raises(PreconditionError) as told:
        report.check_equal()
    assert told.value.exit_code == 3


@pytest.mark.parametrize("error", [*ALONE, *OF_ALL], ids=repr)
def test_a_views_comparison_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """With its statement, and with a follower that holds it."""

    def compare(self: ViewComparison, *args: Any) -> Verdict:
        if cast("ViewDefinition", args[-1]).name.table == "bad":
            raise error
        return EQUAL

    monkeypatch.setattr(ViewComparison, "_compare_view", compare)
    monkeypatch.setattr(ViewComparison, "_compare_follower", compare)
    views = {name: {"key": ["id"], "sql": "SELECT id FROM things"} for name in ("a.bad", "a.good")}
    search = {"kind": "search", "url": "http://localhost:1", "tables": ["a.bad", "a.good"]}
    followers = {"lake": {"kind": "delta", "path": str(tmp_path)}, "search": search}
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.*"]}
    settings = made(source=source, views=views, followers=followers)
    comparison = ViewComparison(Pipeline(settings), 9)
    held = {"search": cast("FollowerReader", None)}
    if error in OF_ALL:
        with pytest.raises(type(error)):
            comparison.compare(held, (), with_views=True)
        return
    verdicts = comparison.compare(held, (), with_views=True)
    assert verdicts.keys() == {VIEWS, "search"}
    check_told(verdicts, "view a.bad")


@pytest.mark.parametrize("error", [*ALONE, *OF_ALL], ids=repr)
def test_a_tables_comparison_ends_no_other(error: Exception) -> None:
    digest = Digest(1, 0)

    def read_digest(table: Table) -> Digest:
        if table is THINGS:
            raise error
        return digest

    pinned = PinnedSource(SPARK, *cast("tuple[Any, Any]", (None, None)), Lsn(9), cast("Any", None), 9, ExitStack())
    pinned.digests.update({(THINGS.name, ""): digest, (OTHERS.name, ""): digest})
    position = Position(1, Lsn(9), 1)
    reader = FollowerReader(lambda: position, cast("Any", None), read_digest, stored=cast("Any", None))
    if error in OF_ALL:
        with pytest.raises(type(error)):
            pinned.verdicts(reader, position, [THINGS, OTHERS])
        return
    check_told({"lake": pinned.verdicts(reader, position, [THINGS, OTHERS])}, str(THINGS.name))


@pytest.mark.parametrize("error", ALONE, ids=repr)
def test_a_historys_comparison_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def compare(*args: Any) -> Verdict:
        if args[2][0] == THINGS.name:
            raise error
        return EQUAL

    monkeypatch.setattr(history_comparison, "_compare", compare)
    settings = settings_of(TrackedLake(in_folder(tmp_path)), history=["public.things", "public.others"])
    verdicts = history_comparison.compare_histories(Pipeline(settings), 9)
    check_told({"lake": verdicts}, "public.things_history")

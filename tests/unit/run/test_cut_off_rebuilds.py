"""A rebuild that was cut off: nothing else on its stream gives it up, and it leaves nothing behind."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.config.settings import VIEWS
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.progress import Silent
from cdc.run.pipeline import Pipeline
from cdc.run.rebuild.work import From, Work
from cdc.run.rebuilds import RebuildNote, Rebuilds, Replaced, clear_cut_off_view, name_beside
from cdc.sinks.lake.layout import Lake, folder_name


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    made = SimpleNamespace(state=tmp_path, name="p", lake=Lake(str(tmp_path / "lake"), "p"))
    return cast(Pipeline, made)


def work_on(pipeline: Pipeline, stream: str, what: str) -> Work:
    return Work(pipeline, stream, what, From.LAKE, lambda _: None, Silent())


def test_only_its_own_name_gives_it_up(pipeline: Pipeline) -> None:
    assert not work_on(pipeline, VIEWS, "shop.one").is_midway()
    Rebuilds.of(pipeline).write(VIEWS, RebuildNote(None, {"shop.other": Replaced(9.0, 3)}))
    work_on(pipeline, VIEWS, "shop.one").begin("computes all rows beside")
    assert work_on(pipeline, VIEWS, "shop.one").is_midway()
    with pytest.raises(PreconditionError, match=r"the rebuild of shop\.one was cut off → `cdc rebuild shop\.one`"):
        work_on(pipeline, VIEWS, "shop.other").is_midway()


def test_one_of_some_tables_of_a_follower_is_given_up_by_its_name(pipeline: Pipeline) -> None:
    work_on(pipeline, "search", "search --table public.things").begin("copies")
    assert work_on(pipeline, "search", "search").is_midway()


def test_the_next_view_leaves_nothing_of_it(pipeline: Pipeline) -> None:
    one = TableName("shop", "one")
    folder = Path(pipeline.lake.path, folder_name(name_beside(one)))
    folder.mkdir(parents=True)
    work_on(pipeline, VIEWS, str(one)).begin("computes all rows beside")
    clear_cut_off_view(pipeline)
    assert not folder.exists()

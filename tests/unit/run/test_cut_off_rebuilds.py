"""A rebuild that was cut off: only its own name gives it up, it leaves nothing behind, and knows where it leads."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.config.settings import VIEWS
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.progress import Silent
from cdc.run.lease import Leases
from cdc.run.pipeline import Pipeline
from cdc.run.rebuild.work import From, Work
from cdc.run.rebuilds import JOINS, RebuildNote, Rebuilds, Replaced, clear_cut_off_view, describe_rebuilds, name_beside
from cdc.sinks.lake.layout import Lake, folder_name

ONE = TableName("shop", "one")
ORIGINAL, REBUILT, AGAIN = Replaced(9.0, 3), Replaced(9.0, 5), Replaced(9.0, 7)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    lake, leases = Lake(str(tmp_path / "lake"), "p"), Leases(tmp_path / "leases")
    made = SimpleNamespace(state=tmp_path, name="p", lake=lake, leases=leases)
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


def go_back(pipeline: Pipeline, *steps: str) -> Work:
    """A way back to the original that has got so far."""
    work = work_on(pipeline, VIEWS, str(ONE))
    work.begin_way_back("brings on what is kept of before")
    for step in steps:
        work.begin(step)
    return work


def read_kept(pipeline: Pipeline) -> Replaced:
    return Rebuilds.of(pipeline).read(VIEWS).kept[str(ONE)]


def test_a_way_back_that_is_cut_off_knows_where_it_leads(pipeline: Pipeline) -> None:
    Rebuilds.of(pipeline).write(VIEWS, RebuildNote(None, {str(ONE): ORIGINAL}))
    go_back(pipeline).keep({ONE: REBUILT})
    assert read_kept(pipeline) == ORIGINAL
    # what is there now may be the original already
    again = go_back(pipeline, "catches up")
    again.keep({ONE: ORIGINAL})
    assert read_kept(pipeline) == ORIGINAL
    again.finish([ONE])
    assert read_kept(pipeline) == REBUILT


def test_a_rebuild_that_is_cut_off_behind_its_swap_keeps_what_was_there_before_it(pipeline: Pipeline) -> None:
    first = work_on(pipeline, VIEWS, str(ONE))
    first.begin("computes")
    first.keep({ONE: ORIGINAL})
    for _ in range(2):
        again = work_on(pipeline, VIEWS, str(ONE))
        again.begin("computes")
        # nothing to give up: readers may have the new one
        assert not again.is_midway()
    again.keep({ONE: REBUILT})
    again.finish([ONE])
    assert read_kept(pipeline) == ORIGINAL
    third = work_on(pipeline, VIEWS, str(ONE))
    third.begin("computes")
    third.keep({ONE: AGAIN})
    assert read_kept(pipeline) == AGAIN


def test_status_says_of_each_what_readers_see_and_what_goes_on(pipeline: Pipeline) -> None:
    def describe() -> str:
        [told] = describe_rebuilds(pipeline)
        return str(told)

    work = work_on(pipeline, VIEWS, str(ONE))
    work.begin("computes")
    assert "computes; readers see the old" in describe()
    assert describe().endswith("`cdc rebuild shop.one` goes on; with --back-out, it is given up")
    work.keep({ONE: ORIGINAL})
    work.begin(JOINS)
    assert "joins; readers may see the new one already" in describe()
    assert describe().endswith("with --back-out, it returns to what was there before")
    work.begin("computes")
    assert "readers may see the new one already" in describe()
    back = go_back(pipeline)
    assert "the way back from the rebuild of shop.one was cut off" in describe()
    assert "readers see the rebuilt one" in describe()
    assert describe().endswith("`cdc rebuild shop.one --back-out` goes on")
    back.keep({ONE: REBUILT})
    assert "readers may see the one of before already" in describe()


def test_a_note_of_a_rebuild_before_this_release_is_read(pipeline: Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "rebuilds" / "p" / f"{VIEWS}.json"
    file.parent.mkdir(parents=True)
    running = (
        '{"what": "shop.one", "source": "lake", "step": "swaps", "since": 1.0, "rows": 0, "of": 0, "is_back": false}'
    )
    file.write_text(
        f'{{"running": {running}, "kept": {{"shop.one": {{"until": 9.0, "version": 3, "position": null}}}}}}'
    )
    [told] = describe_rebuilds(pipeline)
    assert "readers may see the new one already" in str(told)
    assert read_kept(pipeline) == ORIGINAL

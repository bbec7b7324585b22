"""What a lake's readers do not see though its position has passed it, and which views wait; without any server."""

from pathlib import Path
from typing import Any

import pytest

from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import Bookmark, Lsn
from cdc.core.table import Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.read.shown_tables import ShownTables
from cdc.run.views.waiting_views import describe_waiting_views
from cdc.sinks.lake.history.shape import history_table
from tests.contract.followers import OTHERS, SYSTEM
from tests.support.lake.places import in_folder
from tests.support.lake.tables import write_copy
from tests.support.lake.tracked import NAME, ROWS, TrackedLake
from tests.unit.run.test_kept_histories import settings_of

LATE = Table(TableName("public", "late"), OTHERS.columns, OTHERS.key)
VIEWS = {
    f"a.{name}": {"key": ["id"], "sql": f"SELECT id FROM {name}"} for name in ("others_history", "late", "nothing")
}


def hidden(settings: PipelineSettings, *names: TableName) -> list[str]:
    """The tables that readers of the lake do not see now."""
    position = Pipeline(settings).lake_follower.position()
    assert position
    return [
        str(name) for name in ShownTables(Pipeline(settings), "lake", None, names).find_hidden(position, position.lsn)
    ]


def copy_late(tracked: TrackedLake) -> None:
    tracked.follower.prepare([LATE])
    tracked.follower.load(LATE, [write_copy(tracked.lake, LATE, ROWS)], Bookmark(Lsn(5), SYSTEM, 1))


def test_a_table_that_is_copied_again_is_hidden_until_a_cut_has_it(tmp_path: Path) -> None:
    tracked = TrackedLake(in_folder(tmp_path))
    settings = settings_of(tracked)
    assert hidden(settings) == []
    tracked.follower.tables.stop({NAME: "its schema has changed"}, copy=[NAME])
    tracked.apply(1)
    assert hidden(settings) == hidden(settings, NAME) == ["public.things"]
    assert hidden(settings, OTHERS.name) == []
    # somebody is at it
    ShownTables(Pipeline(settings), "lake", None).check_stops([NAME])
    tracked.copy(tracked.table, ROWS, 15, anew=True)
    assert hidden(settings) == ["public.things"]
    tracked.follower.tables.adopt([NAME])
    tracked.apply(2)
    assert hidden(settings) == []
    with pytest.raises(ConfigurationError, match=r"lake does not hold public\.nothing"):
        hidden(settings, TableName("public", "nothing"))


def test_a_table_that_has_stopped_for_good_is_told_to_who_waits_for_it(tmp_path: Path) -> None:
    tracked = TrackedLake(in_folder(tmp_path))
    settings = settings_of(tracked)
    tracked.follower.tables.stop({NAME: "its schema has changed"})
    tracked.apply(1)
    shown = ShownTables(Pipeline(settings), "lake", None)
    with pytest.raises(PreconditionError) as told:
        shown.check_stops([NAME])
    assert str(told.value) == (
        "lake does not show public.things now: public.things is followed no further than 0/5: its schema has changed"
        " → see `cdc status`; who reads other tables names those"
    )
    shown.check_stops([OTHERS.name])


def waiting(settings: PipelineSettings, tracked: TrackedLake) -> list[str]:
    cut = tracked.follower.cuts.last()
    assert cut
    return [str(problem) for problem in describe_waiting_views(Pipeline(settings), cut)]


def test_a_view_is_a_problem_only_if_what_it_reads_does_not_come_by_itself(tmp_path: Path) -> None:
    tracked = TrackedLake(in_folder(tmp_path))
    settings = settings_of(tracked, history=["public.others"], views=VIEWS)
    nobody = "which is in no cut → name it in source.tables, or correct the view's sql"
    nothing = f"view a.nothing waits for public.nothing, {nobody}"
    # the history begins with the next batch
    assert waiting(settings, tracked) == [f"view a.late waits for public.late, {nobody}", nothing]
    copy_late(tracked)
    assert waiting(settings, tracked) == [nothing]
    tracked.follower.tables.stop({LATE.name: "its schema has changed"})
    stopped = "which has no copy or has stopped → it goes on with that: see `cdc status`"
    assert waiting(settings, tracked) == [f"view a.late waits for public.late, {stopped}", nothing]
    tracked.follower.tables.stop({OTHERS.name: "its schema has changed"})
    assert waiting(settings, tracked)[0] == f"view a.others_history waits for public.others_history, {stopped}"


@pytest.mark.parametrize(("history", "is_held"), [(["public.things"], True), ([], False)], ids=["named", "no_more"])
def test_a_history_that_the_file_names_no_more_fills_no_follower(
    tmp_path: Path, history: list[str], is_held: bool
) -> None:
    """The newest cut has it, until the next one; a history of its own name, which the file has, is held where named."""
    tracked = TrackedLake(in_folder(tmp_path))
    search: dict[str, Any] = {"kind": "search", "url": "http://nowhere"}
    followers = {"lake": {"kind": "delta", "path": tracked.lake.path}, "search": search}
    search["tables"] = ["public.things_history"] if is_held else []
    settings = settings_of(tracked, history=history)
    raw = settings.model_dump()
    settings = PipelineSettings.model_validate({**raw, "followers": followers})
    assert settings.holds_table("search", history_table(tracked.table)) == is_held

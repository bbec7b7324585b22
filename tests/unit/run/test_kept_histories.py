"""What `cdc status` says of histories, and which tables are refused for their names; without any server."""

from pathlib import Path
from typing import Any

import pytest

from cdc.config.errors import SettingsRefusedError
from cdc.config.settings import PipelineSettings
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables.history_places import check_places
from cdc.run.tables.preflight import find_taken_names
from cdc.run.views.kept_histories import describe_history_problems, describe_stopped_histories
from tests.support.lake.places import in_folder
from tests.support.lake.tracked import NAME, TrackedLake
from tests.unit.config.test_settings import made
from tests.unit.lake.history.test_history_shapes import NEW_EPOCH
from tests.unit.lake.history.test_history_stops import put_back

OLD = "SELECT id, small FROM things_history"
BOTH = "SELECT id, CAST(small AS STRING) AS small FROM things_history UNION ALL SELECT id, small FROM things_history_2"


def settings_of(tracked: TrackedLake, *tables: str, **changed: Any) -> PipelineSettings:
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": tables or ["public.*"]}
    followers = {"lake": {"kind": "delta", "path": tracked.lake.path}}
    return made(pipeline={"name": "p"}, source=source, followers=followers, **changed)


def test_a_view_that_reads_an_ended_epoch_only_is_told(tmp_path: Path) -> None:
    tracked, (shape, row) = TrackedLake(in_folder(tmp_path)), NEW_EPOCH["text"]
    views = {"a.old": {"key": ["id"], "sql": OLD}, "a.both": {"key": ["id"], "sql": BOTH}}
    settings = settings_of(tracked, history=["public.things"], views=views)
    assert describe_history_problems(Pipeline(settings)) == []
    tracked.copy_again(shape, [row], 3)
    [told] = describe_history_problems(Pipeline(settings))
    assert str(told).startswith(
        "view a.old reads an ended part of the history of public.things, which goes on in public.things_history_2 → "
    )
    assert describe_stopped_histories(Pipeline(settings)) == []


def test_a_stopped_history_is_a_problem_until_it_goes_on(tmp_path: Path) -> None:
    tracked = TrackedLake(in_folder(tmp_path))
    settings = settings_of(tracked, history=["public.things"])
    put_back(tracked.lake)
    tracked.put(1, {"id": 1, "small": 2, "big": "x"})
    [told] = describe_stopped_histories(Pipeline(settings))
    assert told.exit_code == 3
    assert str(told).startswith("public.things_history is kept no further, and lacks what public.things changes after")
    assert describe_stopped_histories(Pipeline(settings_of(tracked))) == []


def test_a_table_named_like_a_history_is_refused_alone(tmp_path: Path) -> None:
    tracked = TrackedLake(in_folder(tmp_path))
    names = [TableName("public", text) for text in ("things_history", "Things_History_2", "things_histories", "others")]
    refused = find_taken_names(Pipeline(settings_of(tracked, history=["public.things"])), names, {NAME})
    assert [str(name) for name in refused] == ["public.things_history", "public.Things_History_2"]
    assert str(refused[names[0]]) == (
        "public.things_history: in the lake this is the name of the history of public.things, which nothing replaces"
        ' → add "!public.things_history" to source.tables, or rename the table'
    )
    # what the file says no more, the lake knows
    refused = find_taken_names(Pipeline(settings_of(tracked)), names, {NAME})
    assert [str(name) for name in refused] == ["public.things_history"]


def test_config_check_asks_the_lake_for_names_that_a_history_has(tmp_path: Path) -> None:
    tracked, (shape, row) = TrackedLake(in_folder(tmp_path)), NEW_EPOCH["text"]
    tracked.copy_again(shape, [row], 3)
    views = {name: {"key": ["id"], "sql": "SELECT id FROM things"} for name in ("public.things_history", "a.free")}
    check_places(Pipeline(settings_of(tracked, "public.things", views={"a.free": views["a.free"]})))
    with pytest.raises(SettingsRefusedError) as error:
        check_places(Pipeline(settings_of(tracked, "public.things_history_2", "public.things", views=views)))
    end = "in the lake this is the name of a history, which nothing replaces"
    assert error.value.lines == (
        f"view public.things_history: {end} → rename the view",
        f"public.things_history_2: {end} → take it out of source.tables, or rename the table",
    )
    assert error.value.exit_code == 2

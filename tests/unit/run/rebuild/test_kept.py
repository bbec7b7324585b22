"""What is kept of before a rebuild goes when its own time is over, or when it is asked for, and no other's with it."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cdc.config.settings import VIEWS
from cdc.core.table import TableName
from cdc.progress import Silent
from cdc.run import rebuilds
from cdc.run.lease import Leases
from cdc.run.pipeline import Pipeline
from cdc.run.rebuild.rebuild import AskedRebuild, Rebuilder
from cdc.run.rebuilds import RebuildNote, Rebuilds, Replaced, drop_kept, drop_regularly

EARLY, LATE = TableName("shop", "early"), TableName("shop", "late")


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    settings = SimpleNamespace(followers={}, views={str(EARLY): "", str(LATE): ""}, is_view=lambda _: True)
    leases = Leases(tmp_path / "leases")
    made = cast(Pipeline, SimpleNamespace(state=tmp_path, name="p", settings=settings, leases=leases))
    kept = {str(EARLY): Replaced(time.time() - 1, 3), str(LATE): Replaced(time.time() + 3600, 5)}
    Rebuilds.of(made).write(VIEWS, RebuildNote(None, kept))
    return made


def list_kept(pipeline: Pipeline) -> list[str]:
    return [*Rebuilds.of(pipeline).read(VIEWS).kept]


def test_what_is_kept_long_enough_goes_alone(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilds, "LOOK_SECONDS", 0.0)
    ended, said = threading.Event(), list[str]()

    def say(text: str) -> None:
        said.append(text)
        ended.set()

    drop_regularly(pipeline, say, ended)
    assert said == ["views: shop.early as before its rebuild is kept no longer"]
    assert list_kept(pipeline) == [str(LATE)]


def test_what_somebody_drops_goes_alone(pipeline: Pipeline) -> None:
    rebuilder = Rebuilder(pipeline, AskedRebuild(str(LATE)), print, Silent())
    assert rebuilder.drop_old() == [LATE]
    assert list_kept(pipeline) == [str(EARLY)]
    assert rebuilder.drop_old() == []


def test_all_goes_where_nothing_is_named(pipeline: Pipeline) -> None:
    assert drop_kept(pipeline, VIEWS) == [EARLY, LATE]
    assert list_kept(pipeline) == []

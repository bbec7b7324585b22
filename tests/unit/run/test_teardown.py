"""What a teardown leaves, says and notes where the role may remove nothing of the source; its files on this machine."""

from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.config.file import load
from cdc.connect.source.removal import LackingRightError
from cdc.core.errors import CdcError, UnreachableError
from cdc.run.pipeline import Pipeline
from cdc.run.teardown.belonging import Belonging, Belongings
from cdc.run.teardown.data_belongings import find_state, list_state
from cdc.run.teardown.teardown import TornDown, tear_down


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "x")
    assert main(["init"]) == 0
    return Pipeline(load(tmp_path / "cdc.yaml"))


def deny() -> None:
    raise LackingRightError("this role may not: must be owner", "run as owner: …")


def remove(pipeline: Pipeline, removed: list[str], *, denied: bool, unknown: bool = False) -> TornDown:
    def of(kind: str, statements: str = "") -> Belonging:
        return Belonging(kind, "it", deny if denied and statements else lambda: removed.append(kind), "", statements)

    found = [of("slot"), of("event trigger", "DROP 1"), of("publication", "DROP 2")]
    silent: list[CdcError] = [UnreachableError("Kafka does not answer", "start it")] if unknown else []
    return tear_down(pipeline, Belongings(found, [of("schema", "DROP 3"), of("lake")], silent), lambda line: None)


def test_what_the_role_may_not_remove_is_one_script_and_the_lake_stays_meanwhile(pipeline: Pipeline) -> None:
    removed = list[str]()
    done = remove(pipeline, removed, denied=True)
    assert removed == ["slot"]
    assert [line for line in map(str, done.left) if "lake it is kept until the rest is gone" in line]
    assert str(done.left[-1]).endswith("runs all of this, then `cdc teardown` again: DROP 1; DROP 2; DROP 3")
    # by the schema a second run knows what is ours
    told = str(remove(pipeline, removed, denied=True, unknown=True).left[-1])
    assert told.endswith(": DROP 1; DROP 2")


def test_a_last_thing_that_is_left_keeps_the_lake(pipeline: Pipeline) -> None:
    removed = list[str]()
    lake = Belonging("lake", "it", lambda: removed.append("lake"))
    done = tear_down(pipeline, Belongings([], [Belonging("schema", "cdc", deny, "", "DROP"), lake]), print)
    assert (removed, len(done.left)) == ([], 2)


def test_a_half_teardown_is_known_until_one_is_whole(pipeline: Pipeline) -> None:
    remove(pipeline, [], denied=True)
    assert str(pipeline.requests.find_half_teardown()) == "a teardown is half done → `cdc teardown` finishes it"
    remove(pipeline, [], denied=False)
    assert pipeline.requests.find_half_teardown() is None


def test_what_this_machine_keeps_of_the_pipeline_goes_with_its_data(pipeline: Pipeline) -> None:
    state = pipeline.state
    own = ["leases/shop/lake.lock", "reports/shop/x", "serve/shop.sqlite-wal", "logs/follow.log", "tmp/.lock"]
    others = ["serve/other.sqlite", "logs/kafka.log", "secrets/shop.password"]
    for name in (*own, *others):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).touch()
    found = Belongings()
    find_state(pipeline, found)
    assert tear_down(pipeline, Belongings(last=found.last), lambda line: None).left == []
    files = {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}
    assert files == {*others, "cdc.schema.json"}
    (state / "leases" / "other").mkdir(parents=True)
    (state / "logs" / "follow.log").touch()
    assert list_state(pipeline) == []

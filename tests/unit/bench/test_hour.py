"""What samples of an hour come to."""

import json
from pathlib import Path

import pytest

from tests.bench.goal import Failed
from tests.bench.hour import faults
from tests.bench.hour.faults import Follower, Kill, Killer
from tests.bench.hour.samples import Sample
from tests.bench.hour.shop import Load
from tests.bench.hour.verdict import judge
from tests.bench.meter.meter import Meter
from tests.bench.world.jobs import Finished
from tests.bench.world.parts import Parts
from tests.bench.world.pipeline import Pipeline

LOAD = Load(rate=100.0, seconds=300.0, rows=20_000, first_rows=5_000)
KILLED = Kill("kafka", at=1100.0, back=1110.0)


def made(files_grow: float = 0.0) -> list[Sample]:
    """A run that begins at 1000 by the clock: 90 transactions a second, and a lag from 100 to 130 s."""
    samples: list[Sample] = []
    for at in range(0, 300, 3):
        lag = 60.0 if 100 <= at < 130 else 2.0
        sample: Sample = {
            "at": float(at),
            "commits": 90 * at,
            "held": 300.0,
            "lake_lag": lag,
            "lags": {"search": lag},
        }
        if at % 15 == 0:
            sample |= {"files": 100 + files_grow * at, "live_files": 50, "mib": 10.0 + at, "rows": 1000 + 100 * at}
        samples.append(sample)
    return samples


def test_a_run_is_told_by_its_rate_its_memory_and_its_recoveries() -> None:
    found = judge(made(), [KILLED], LOAD, began=1000.0)
    assert found["rate_reached"] == pytest.approx(90)
    assert found["recoveries"][0]["back"] == 10.0
    assert 29 <= found["recoveries"][0]["recovered"] <= 33
    assert found["limits"] == {"python_holds_below_500_mib": True, "files_flat": True, "all_recovered": True}


def test_files_that_only_grow_and_a_follower_that_stays_behind_are_missed_limits() -> None:
    last = Kill("connect", at=1297.0)
    found = judge(made(files_grow=5.0), [KILLED, last], LOAD, began=1000.0)
    assert found["limits"] == {"python_holds_below_500_mib": True, "files_flat": False, "all_recovered": False}


def test_part_that_was_not_started_again_has_not_recovered() -> None:
    lost = Kill("postgres", at=1200.0, said="cdc up ended with 4")
    found = judge(made(), [KILLED, lost], LOAD, began=1000.0)
    assert found["recoveries"][1]["recovered"] is None
    assert not found["limits"]["all_recovered"]


def test_turn_of_a_part_that_does_not_run_ends_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `cdc up` has failed the last time: it is started, and its turn fails where that is in vain."""
    listed = Finished(json.dumps([{"part": "kafka", "pid": None}]), 0.0)
    monkeypatch.setattr(faults, "run", lambda *_: listed)
    meter, said = Meter(), list[str]()
    parts = Parts(tmp_path, "127.0.0.1", 9, "nobody", "", "", "", "")
    killer = Killer(parts, meter, Follower(Pipeline(meter, parts, "hour", "hour", ()), 9), 1.0, said.append)
    with pytest.raises(Failed, match="kafka"):
        killer._kill("kafka")


def test_inserts_bring_the_rows_that_are_asked_for() -> None:
    kept = LOAD.rate * LOAD.seconds * (LOAD.inserts - 0.05)
    assert LOAD.first_rows + kept == pytest.approx(LOAD.rows)


def test_the_curve_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the bench group is not installed")
    from tests.bench.hour.curve import draw

    kills = judge(made(), [KILLED], LOAD, began=1000.0)["recoveries"]
    draw(made(), kills, "a run", tmp_path / "hour.png")
    assert (tmp_path / "hour.png").read_bytes()[1:4] == b"PNG"
    assert "kafka killed" in (tmp_path / "hour.svg").read_text()

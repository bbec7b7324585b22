"""The README's walkthrough and the demos, as a user runs them: in one empty folder, with real servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.demo.flights.data import PACKAGE, data_files, open_csv
from cdc.local.services import Home, down, endpoints, wipe
from tests.support.cdc_inprocess import lend_session
from tests.support.cdc_subprocess import LIMIT_SECONDS, ROOT
from tests.support.further import further
from tests.support.waiting import until
from tests.unit.pages.test_readme import walkthrough

RACE = ("demo", "race", "--json", "--pairs", "200", "--seed", "11")
WALK = ("up", "init", "config", "plan", "bootstrap", "follow", "status", "serve", "verify")
LASTING = {"follow": "following: ", "serve": "http://127.0.0.1:"}
"""Verbs that go on until Ctrl-C, and what each says once it does its work."""
STARTING = ("up",)
"""What is tried as a process of its own beside those of LASTING; the others run in this one."""
MINUTES = 60
FLIGHTS = 336_776

pytestmark = pytest.mark.timeout(30 * MINUTES)


@dataclass(frozen=True)
class Place:
    """A folder to run in, how many flights are loaded there, and where the data set is found."""

    folder: Path
    flights: int
    modules: str

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self.modules}


@pytest.fixture(
    scope="module", params=[pytest.param(5_000, id="first rows"), further("all rows, as a user has them", FLIGHTS)]
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An empty folder; the parts that came up in it are stopped, and their data removed."""
    folder, modules = tmp_path_factory.mktemp("demo"), str(ROOT)
    if request.param < FLIGHTS:
        modules = f"{first_rows(tmp_path_factory.mktemp('data'), request.param)}:{modules}"
    try:
        yield Place(folder, request.param, modules)
    finally:
        home = Home(folder / ".cdc")
        down(home)
        wipe(home)


def first_rows(folder: Path, count: int) -> Path:
    """A data set with the first rows of each file, as the package that is found first; the folder that it is in."""
    below = folder / "data"
    below.mkdir()
    for table, file in data_files().items():
        with open_csv(file) as lines, (below / f"{table}.csv").open("wb") as out:
            out.writelines(line for _, line in zip(range(count + 1), lines, strict=False))
    about = folder / f"{PACKAGE}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n")
    (about / "RECORD").write_text("".join(f"data/{file.name},,\n" for file in below.iterdir()))
    return folder


def cdc(place: Place, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "cdc", *arguments],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=15 * MINUTES,
        check=False,
    )
    assert ended.returncode == code, (arguments, ended.stdout, ended.stderr)
    return ended


RunHere = Callable[..., str]


@pytest.fixture
def run_here(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunHere:
    """Runs a verb in the place by this process, with the one Spark session of the tests; what it printed."""
    monkeypatch.chdir(place.folder)
    monkeypatch.syspath_prepend(place.modules.split(":")[0])
    lend_session(spark, monkeypatch)

    def run(*arguments: str) -> str:
        code, said = main(arguments), capsys.readouterr()
        assert code == 0, (arguments, said)
        return said.out

    return run


def test_readme_walkthrough_works(place: Place, run_here: RunHere) -> None:
    commands = walkthrough()
    assert tuple(command[0] for command in commands) == WALK
    lasting = []
    for command in commands:
        if command[0] in LASTING:
            lasting.append(start_lasting(place, command))
        elif command[0] in STARTING:
            cdc(place, *command)
        else:
            run_here(*command)
        if command[0] == "up":
            make_orders(place)
    for process in lasting:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0


def start_lasting(place: Place, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a verb that goes on, and return when it does its work."""
    said, sign = place.folder / f"{command[0]}.said", LASTING[command[0]]
    with said.open("wb") as file:
        words = [sys.executable, "-m", "cdc", *command]
        started = subprocess.Popen(words, cwd=place.folder, env=place.environment(), stderr=file)
    until(lambda: sign in said.read_text() or started.poll() is not None, f"it says {sign}")
    assert started.poll() is None, said.read_text()
    return started


def make_orders(place: Place) -> None:
    found = endpoints(Home(place.folder / ".cdc"))
    with psycopg.connect(found.postgres_dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, total numeric(10, 2))")
        connection.execute("INSERT INTO orders SELECT g, g * 1.5 FROM generate_series(1, 100) g")


def test_dual_writes_diverge_and_the_log_does_not(run_here: RunHere) -> None:
    found = json.loads(run_here(*RACE))
    assert found.keys() == {"pairs", "dual_write_diverged", "partial_failure_diverged", "cdc_diverged", "seed"}
    assert (found["pairs"], found["seed"], found["cdc_diverged"]) == (200, 11, 0)
    assert 2 <= found["dual_write_diverged"] <= 200
    assert found["partial_failure_diverged"] == 5


@pytest.mark.further
def test_second_race_reuses_its_pipeline(place: Place) -> None:
    """As the second demo does, whose start is the same."""
    ended = cdc(place, "demo", "race", "--pairs", "60", "--seed", "11")
    assert "the database holds 62 keys, the index 62; 0 differ" in ended.stderr
    assert "X=A → index" in ended.stderr
    assert [line.split()[-2:] for line in ended.stdout.splitlines()[-1:]] == [["62", "0"]]


def test_the_demo_proves_its_followers_equal(place: Place, run_here: RunHere) -> None:
    words = ("demo", "--json", "--changes", "500", "--seed", "3")
    found = json.loads(run_here(*words) if place.flights < FLIGHTS else cdc(place, *words).stdout)
    assert found["equal"] is True
    assert set(found["verify"]["followers"]) == {"lake", "search", "latest"}
    assert found["rows_loaded"]["flights"] == place.flights
    assert found["changes"] >= 500
    assert found["rolled_back"] > 0


def test_second_demo_reuses_its_pipeline_and_leaves_nothing_running(run_here: RunHere) -> None:
    found = json.loads(run_here("demo", "--json", "--changes", "200", "--seed", "3", "--down"))
    assert (found["equal"], found["rows_loaded"], found["rows_copied"]) == (True, {}, {})
    assert {each["running"] for each in json.loads(run_here("parts", "--json"))} == {False}

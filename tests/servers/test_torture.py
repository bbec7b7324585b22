"""`cdc torture`: its writers keep the laws by which readers are judged; and a run of its own, by the night."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from cdc.config.file import load
from cdc.torture.checks.prefixes import CutSighting, find_hole
from cdc.torture.checks.registers import find_violation
from cdc.torture.schedule import plan
from cdc.torture.tables import ACCOUNTS, SCHEMA, TABLES, TOTAL, configure
from cdc.torture.writers.histories import JournalWriter, RegisterWriter
from cdc.torture.writers.registry import make_writers
from tests.support.cdc_subprocess import ROOT
from tests.support.parts.pipelines import MakePipeline, Pipeline

TRANSACTIONS = 60
LAWS = f"""SELECT (SELECT sum(balance) = {TOTAL} AND count(*) = {ACCOUNTS} FROM accounts),
    (SELECT count(DISTINCT round) = 1 FROM rounds), (SELECT count(*) = 40 AND min(id) = 1 FROM seats)"""


def test_writers_keep_the_laws_that_readers_are_judged_by(make_pipeline: MakePipeline) -> None:
    """At once, as in a run; a reader beside them sees the laws hold at every commit."""
    pipeline = make_pipeline(*SCHEMA, tables=TABLES)
    pipeline.config.write_text(
        configure(pipeline.config.read_text().replace("trigger_seconds: 0.5", "trigger_seconds: 0.2"))
    )
    assert len(load(pipeline.config, pipeline.environ).views) == 3
    writers = make_writers(plan(3, 1, 30))

    def write(session: "psycopg.Connection[object]", place: int) -> None:
        with session:
            for _ in range(TRANSACTIONS):
                writers[place].write(session)

    threads = [threading.Thread(target=write, args=(connect(pipeline), place)) for place in range(len(writers))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert pipeline.connection.execute(LAWS.encode()).fetchone() == (True, True, True)
    journals = {each.place: each.journal for each in writers if isinstance(each, JournalWriter)}
    counted = "SELECT writer, count(*)::int, max(n)::int FROM journal GROUP BY writer"
    entries = {writer: (count, last) for writer, count, last in pipeline.connection.execute(counted).fetchall()}
    assert find_hole(journals, [CutSighting("the source", None, entries)]) is None
    assert all(len(each.lasts) == TRANSACTIONS for each in journals.values())
    history = [operation for each in writers if isinstance(each, RegisterWriter) for operation in each.history]
    assert len(history) == 2 * TRANSACTIONS
    assert find_violation(history, 0) is None


def connect(pipeline: Pipeline) -> "psycopg.Connection[object]":
    return pipeline.servers.connect(pipeline.settings.source.dbname)


@pytest.mark.further
@pytest.mark.timeout(1800)
def test_a_minute_of_faults_ends_equal_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["torture", "--seed", "1", "--minutes", "1", "--json", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "cdc", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "equal"
    assert told["transactions"] > 0
    assert told["reads"] > 0
    assert len(told["equal_at"]) >= 1
    assert not list(tmp_path.iterdir())

"""The model's random histories as SQL against Postgres, schema changes among them, while all followers follow.

`CDC_TEST_SEED=7 pytest tests/servers/test_histories.py` plays others.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from psycopg import Error
from pyspark.sql import SparkSession

from tests.support.cdc_inprocess import bootstrap, following, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.histories import Step, play, random_steps
from tests.support.model import Key, Row
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(1800)

SEED = int(os.environ.get("CDC_TEST_SEED", "20261122"))
HISTORIES = int(os.environ.get("CDC_TEST_SQL_HISTORIES", "8"))
"""Of each table."""
PHASES = 2
BIG = 1500
"""So many times as long as the model's texts: stored out of line, and not sent when they are left alone."""
COLUMNS = "history int NOT NULL, id {id} NOT NULL, small int, big text"
KEYED = {
    "plain": ("CREATE TABLE {t} ({columns}, PRIMARY KEY (history, id))",),
    "whole": ("CREATE TABLE {t} ({columns}, PRIMARY KEY (history, id))", "ALTER TABLE {t} REPLICA IDENTITY FULL"),
    "indexed": (
        "CREATE TABLE {t} ({columns})",
        "CREATE UNIQUE INDEX {t}_key ON {t} (id, history)",
        "ALTER TABLE {t} REPLICA IDENTITY USING INDEX {t}_key",
    ),
    "worded": ("CREATE TABLE {t} ({columns}, PRIMARY KEY (id, history))",),
    "parted": (
        "CREATE TABLE {t} ({columns}, PRIMARY KEY (history, id)) PARTITION BY HASH (id)",
        *(f"CREATE TABLE {{t}}_{n} PARTITION OF {{t}} FOR VALUES WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
    ),
}
KEYLESS = {
    "keyless": ("CREATE TABLE {t} ({columns})", "ALTER TABLE {t} REPLICA IDENTITY FULL"),
    "late": (
        "CREATE TABLE {t} ({columns}, PRIMARY KEY (history, id) DEFERRABLE INITIALLY DEFERRED)",
        "ALTER TABLE {t} REPLICA IDENTITY FULL",
    ),
}
TABLES = {**KEYED, **KEYLESS}
COPY: dict[Key, Row] = {(n,): {"id": n, "small": n, "big": "old"} for n in range(3)}
SCHEMA_STEPS = (
    "ALTER TABLE {t} ADD COLUMN {new} int",
    "ALTER TABLE {t} ADD COLUMN {new} text DEFAULT 'filled'",
    "ALTER TABLE {t} ADD COLUMN {new} numeric(5, 2) DEFAULT random()",
    "ALTER TABLE {t} DROP COLUMN {old}",
    "ALTER TABLE {t} RENAME COLUMN {old} TO {new}",
    "ALTER TABLE {t} ALTER {old} TYPE text",
    "ALTER TABLE {t} ALTER small TYPE bigint USING -small",
    "ALTER TABLE {t} ALTER big SET STORAGE MAIN",
    "CREATE INDEX ON {t} (small)",
    "UPDATE {t} SET {old} = NULL WHERE id IN ('1', '2')",
    "UPDATE {t} SET {old} = '7', small = small + 1 WHERE id = '3'",
)
OF_KEYED = (
    "ALTER TABLE {t} REPLICA IDENTITY DEFAULT",
    "ALTER TABLE {t} REPLICA IDENTITY FULL",
    "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, history)",
)
OFTEN = 0.04
"""Of Postgres's transactions so many change a schema."""


@dataclass
class Player:
    """Plays histories of every table, and changes the tables' schemas on the way."""

    pipeline: Pipeline
    random: Random
    played: dict[tuple[str, int], list[list[Step]]] = field(default_factory=dict)
    further: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in TABLES})
    """The columns of each table that came on the way."""
    numbered: int = 0
    made: list[str] = field(default_factory=list)
    """The schema changes that Postgres took."""

    def play(self, phase: int) -> None:
        """A share of all histories, side by side, up to three in one transaction of Postgres."""
        numbers = range(1 + phase, HISTORIES + 1, PHASES)
        going = {(name, number): iter(self._begin_history(name, number)) for name in TABLES for number in numbers}
        while going:
            picked = self.random.sample(sorted(going), min(len(going), self.random.randint(1, 3)))
            steps = {each: next(going[each], None) for each in picked}
            for each in (each for each, found in steps.items() if found is None):
                del going[each]
            self._transaction({each: found for each, found in steps.items() if found})

    def _begin_history(self, name: str, number: int) -> list[list[Step]]:
        self.played[name, number] = random_steps(self.random)
        return self.played[name, number]

    def _transaction(self, together: dict[tuple[str, int], list[Step]]) -> None:
        with self.pipeline.connection.transaction():
            for (name, number), steps in together.items():
                for step in steps:
                    self._try(name, statement(name, number, step))
                if self.random.random() < OFTEN:
                    self._change_schema(name)
                if self.random.random() < OFTEN:
                    self._undone(name, number)

    def _try(self, name: str, text: str, *, undone: bool = False) -> bool:
        """Run it, unless Postgres refuses; says whether it did."""
        connection = self.pipeline.connection
        with suppress(Error), connection.transaction(force_rollback=undone):
            connection.execute(text.encode())
            if name == "late":
                # what it has deferred would be the end of the whole transaction
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                connection.execute("SET CONSTRAINTS ALL DEFERRED")
            return True
        return False

    def _change_schema(self, name: str) -> None:
        further = self.further[name]
        chosen = self.random.choice([*SCHEMA_STEPS, *(OF_KEYED if name in ("plain", "whole") else ())])
        old = self.random.choice(further) if further else ""
        if "{old}" in chosen and not old:
            return
        self.numbered += 1
        new = f"further{self.numbered}"
        if self._try(name, text := chosen.format(t=name, new=new, old=old)):
            self.made.append(text)
            if "DROP COLUMN" in chosen or "RENAME" in chosen:
                further.remove(old)
            if "{new}" in chosen:
                further.append(new)

    def _undone(self, name: str, number: int) -> None:
        for text in (f"ALTER TABLE {name} ADD COLUMN undone int DEFAULT 1", f"UPDATE {name} SET history = -history"):
            self._try(name, text, undone=True)

    def rows_by_model(self, name: str) -> dict[tuple[int, int], str | None]:
        """The rows of a table's histories by the model: their keys, and their long texts."""
        rows = {(number, *key): row for number in range(1, HISTORIES + 1) for key, row in self._ends(name, number)}
        return {key: None if row["big"] is None else str(row["big"]) * BIG for key, row in rows.items()}  # type: ignore[misc]

    def _ends(self, name: str, number: int) -> Iterator[tuple[Key, Row]]:
        history = play(COPY, self.played.get((name, number), []))
        yield from (history[-1].rows if history else COPY).items()


def columns(name: str) -> str:
    return COLUMNS.format(id="text" if name == "worded" else "int")


def fill(name: str) -> str:
    rows = f"generate_series(1, {HISTORIES}) h, generate_series(0, 2) n"
    return f"INSERT INTO {name} SELECT h, n, n, repeat('old', {BIG}) FROM {rows}"


def statement(name: str, number: int, step: Step) -> str:
    """What a step does, as SQL; a literal in quotes is of whatever type its column has."""
    big = "NULL" if step.big is None else f"repeat('{step.big}', {BIG})"
    sets = f"small = {step.small}" + (f", big = {big}" if step.touches_big else "")
    row = f"WHERE history = {number} AND id = '{step.key}'"
    return {
        "insert": f"INSERT INTO {name} (history, id, small, big) VALUES ({number}, '{step.key}', {step.small}, {big})",
        "update": f"UPDATE {name} SET {sets} {row}",
        "delete": f"DELETE FROM {name} {row}",
        # to where a row is already, be it this one, the model moves nothing
        "move": f"UPDATE {name} SET id = '{step.other}', {sets} {row} AND '{step.other}' <> '{step.key}'",
    }[step.verb]


def in_source(pipeline: Pipeline, name: str) -> dict[tuple[int, int], str | None]:
    rows = pipeline.connection.execute(f"SELECT history, id::int, big FROM {name}".encode()).fetchall()
    return {(history, number): big for history, number, big in rows}


def check_all_equal(pipeline: Pipeline, spark: SparkSession, made: list[str]) -> None:
    """All followers are equal to the source, those tables among them that had to be copied again."""
    report = verify(pipeline, spark)
    if report.stopped:
        until(lambda: not pipeline.opened().lake_follower.tables.stops(), "all are copied again", LIMIT_SECONDS)
        report = verify(pipeline, spark)
    assert not report.stopped
    differing = {
        f"{name} {table}": verdict
        for name, tables in report.followers.items()
        for table, verdict in tables.items()
        if not (verdict.comparison and verdict.comparison.equal)
    }
    assert differing == {}, (SEED, made)


def test_histories_of_the_model_against_postgres(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    made = [text.format(t=name, columns=columns(name)) for name, texts in TABLES.items() for text in texts]
    out_of_line = [f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL" for name in TABLES]
    pipeline = make_pipeline(*made, *out_of_line, *map(fill, TABLES), tables=tuple(f"public.{t}" for t in TABLES))
    for kind in ("search", "latest"):
        left_out = ", ".join(f"public.{name}" for name in KEYLESS)
        pipeline.configure(f"    kind: {kind}\n", f"    kind: {kind}\n    leave_out: [{left_out}]\n")
    bootstrap(pipeline, spark)
    player = Player(pipeline, Random(SEED))
    with following(pipeline, spark):
        for phase in range(PHASES):
            player.play(phase)
            check_all_equal(pipeline, spark, player.made)
    for name in KEYED:
        assert in_source(pipeline, name) == player.rows_by_model(name), (name, SEED)
    # schemas did change
    assert len(player.made) > PHASES

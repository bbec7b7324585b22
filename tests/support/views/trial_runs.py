"""The states of trials, computed: by DuckDB what it is proven for, by Spark the truth, as one query for many trials.

Each statement over one state is a branch of Spark's query, and gives its rows as JSON. A table's rows lie in one frame
for all trials, with a column for the state.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.columns.types.spark_types import row_type
from cdc.core.table import Column, Kind, Table
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.tree.spelling import spell_columns
from tests.support.views.rows_as_text import name_row, read_json
from tests.support.views.statements.grammar import TABLES
from tests.support.views.trials import AFTER, BEFORE, BY_SPARK, HISTORIES, Rows, Trial, make_trial, make_trials

_STATE: Final = "_state"
_BATCH: Final = 4
"""Trials of one query: each of its joins takes memory until it ends."""
_QUICK: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def find_wrong(spark: SparkSession, seeds: Sequence[int]) -> tuple[int, list[str]]:
    """How many trials were compared, and those that are wrong, in words."""
    trials = run_trials(spark, [trial for seed in seeds if (trial := make_trial(seed))])
    return len(trials), [*describe(trials)]


def find_wrong_in_duckdb(seeds: Sequence[int]) -> tuple[int, list[str]]:
    """As `find_wrong`, of statements that DuckDB evaluates, without Spark, and each with more histories."""
    made = (trial for seed in seeds for trial in make_trials(seed, HISTORIES))
    trials = run_in_duckdb([trial for trial in made if trial.touched])
    return len(trials), [*describe(trials)]


def describe(trials: Sequence[Trial]) -> Iterator[str]:
    """The trials that are wrong, with their statements."""
    for trial in trials:
        if why := trial.explain_difference():
            yield f"seed {trial.seed}, key {trial.statement.key}: {trial.statement.sql}: {why}"


def run_trials(spark: SparkSession, trials: Sequence[Trial]) -> list[Trial]:
    """Compute all states, by Spark at least what is there after the changes; returns the trials that it understands."""
    for trial in run_in_duckdb(trials):
        # Spark has names of its own for outputs without one
        if None not in spell_columns(trial.view.statement.tree.root):
            trial.states[BY_SPARK] = trial.states[AFTER]
    if not trials:
        return []
    _put_frames(spark, trials)
    understood = [trial for trial in trials if _is_understood(spark, trial)]
    with _planned_once(spark):
        for start in range(0, len(understood), _BATCH):
            _run(spark, understood[start : start + _BATCH])
    return [trial for trial in understood if len(trial.found) == len(trial.states)]


def run_in_duckdb(trials: Sequence[Trial]) -> list[Trial]:
    """Compute the states of the trials whose statements DuckDB is proven to understand; returns those."""
    evaluator, found = Evaluator(), list[Trial]()
    for trial in trials:
        if isinstance(trial.view.duckdb, DuckStatement):
            try:
                trial.found = {at: _evaluate(evaluator, trial, rows) for at, rows in trial.states.items()}
            except duckdb.Error:
                # Spark is asked then
                continue
            found.append(trial)
    return found


def _evaluate(evaluator: Evaluator, trial: Trial, rows: Rows) -> Counter[str]:
    view, names = trial.view, spell_columns(trial.view.statement.tree.root)
    assert isinstance(view.duckdb, DuckStatement)
    tables = {view.names[name]: rows[name].select(view.plan.columns[name]) for name in view.tables}
    found = evaluator.evaluate(view.duckdb.sql, tables).rename_columns(
        [name or f"_{at}" for at, name in enumerate(names)]
    )
    return Counter(name_row(row, view.unordered) for row in found.to_pylist())


@contextmanager
def _planned_once(spark: SparkSession) -> Iterator[None]:
    """Each branch in one stage: a broadcast would be a job of its own, for some rows."""
    before = {name: spark.conf.get(name) for name in _QUICK}
    for name, value in _QUICK.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def _put_frames(spark: SparkSession, trials: Sequence[Trial]) -> None:
    for name, table in TABLES.items():
        marked = Table(name, (*table.columns, Column(_STATE, Kind.TEXT)), table.key)
        parts = [
            rows[name].append_column(_STATE, pa.array([_mark(trial, at)] * len(rows[name]), pa.string()))
            for trial in trials
            for at, rows in trial.states.items()
            if at in {BEFORE, *_left(trial)}
        ]
        # Spark reads no further than an empty chunk
        frame = spark.createDataFrame(pa.concat_tables(parts).combine_chunks(), row_type(marked))
        # in one partition: no join and no group moves a row then
        frame.coalesce(1).createOrReplaceTempView(f"trial_{name.table}")


def _left(trial: Trial) -> list[int]:
    """The states that DuckDB has not computed."""
    return [at for at in trial.states if at not in trial.found]


def _mark(trial: Trial, at: int) -> str:
    return f"{trial.seed}-{at}"


def _write(trial: Trial, at: int) -> str:
    """The statement over one state; its rows as JSON."""
    sql = trial.view.statement.rename_tables({name: f"#{name.table}" for name in TABLES})
    for name, table in TABLES.items():
        columns = ", ".join(table.column_names)
        rows = f"(SELECT {columns} FROM trial_{name.table} WHERE {_STATE} = '{_mark(trial, at)}')"
        sql = sql.replace(f"`#{name.table}`", rows)
    return f"SELECT '{_mark(trial, at)}' AS state, to_json(struct(*)) AS row FROM ({sql})"


def _is_understood(spark: SparkSession, trial: Trial) -> bool:
    try:
        spark.sql(_write(trial, BEFORE))
    except PySparkException:
        return False
    return True


def _run(spark: SparkSession, trials: Sequence[Trial]) -> None:
    """One query for all; halves where a statement has an error."""
    branches = [(trial, at) for trial in trials for at in _left(trial)]
    try:
        rows = spark.sql(" UNION ALL ".join(f"({_write(*branch)})" for branch in branches)).collect()
    except (PySparkException, Py4JJavaError):
        if len(trials) > 1:
            _run(spark, trials[: len(trials) // 2])
            _run(spark, trials[len(trials) // 2 :])
        return
    found: dict[str, Counter[str]] = {_mark(*branch): Counter() for branch in branches}
    by_mark = {_mark(*branch): branch for branch in branches}
    for row in rows:
        found[row.state][name_row(read_json(row.row), by_mark[row.state][0].view.unordered)] += 1
    for trial, at in branches:
        trial.found[at] = found[_mark(trial, at)]

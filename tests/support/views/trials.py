"""Random statements over random changes: what a refresh makes of them beside Spark over everything.

A trial has no lake: its rows are in memory, and all statements of many trials are one query of Spark's, each a branch
that gives its rows as JSON. A table's rows lie in one frame for all trials, with a column for the state.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.columns.values.arrow_types import arrow_schema
from cdc.columns.values.spark_types import row_type
from cdc.core.errors import ConfigurationError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.derived import NotDerivedError
from cdc.views.refresh.evaluate import Evaluator
from cdc.views.refresh.needed import find_needed_rows
from cdc.views.refresh.touched import TouchedKeys, find_touched_keys
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.list_order import ELEMENT, ListPaths
from tests.support.views.grammar import TABLES, Grammar, RandomStatement
from tests.unit.views.test_refresh import MemoryTable

Rows = Mapping[TableName, pa.Table]
BEFORE, AFTER, SHUFFLED, SOME = range(4)
"""The states of a trial: before the changes, after them, the same in another order, and the needed rows alone."""
_STATE: Final = "_state"
_BATCH: Final = 4
"""Trials of one query: each of its joins takes memory until it ends."""
HISTORIES: Final = 5
_QUICK: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
_VALUES: Final[Mapping[Kind, Sequence[Any]]] = {
    Kind.INTEGER: [None, 0, 1, 2, 3],
    Kind.BIGINT: [None, 0, 1, 2, 3],
    Kind.TEXT: [None, "", "a", "B ", "2"],
    Kind.DECIMAL: [None, 0, 1, 2],
    Kind.DOUBLE: [None, 0.0, 0.1, 1e16, -1e16],
}


@dataclass(slots=True)
class Trial:
    """A statement, its states, and the keys that its changes have touched; None: the whole view is computed."""

    seed: str
    statement: RandomStatement
    view: CompiledView
    states: dict[int, Rows] = field(default_factory=dict)
    touched: Sequence[TouchedKeys] | None = None
    is_unchanged: bool = False
    found: dict[int, Counter[str]] = field(default_factory=dict)

    def explain_difference(self) -> str | None:
        """What is wrong with the plan or the statement; None if nothing is."""
        if self.found[AFTER] != self.found[SHUFFLED]:
            return f"two answers: {self.found[AFTER]} and {self.found[SHUFFLED]}"
        if self.is_unchanged and self.found[BEFORE] != self.found[AFTER]:
            return "a change was passed over"
        if self.touched is None or self.is_unchanged:
            return None
        kept = Counter({row: n for row, n in self.found[BEFORE].items() if not self._is_touched(row)})
        kept.update({row: n for row, n in self.found[SOME].items() if self._is_touched(row)})
        if kept != self.found[AFTER]:
            return f"it has {kept - self.found[AFTER]}, and has not {self.found[AFTER] - kept}"
        return None

    def _is_touched(self, row: str) -> bool:
        values = {name.lower(): value for name, value in json.loads(row).items()}
        assert self.touched is not None
        return any(
            _combine([_plain(values.get(name)) for name in keys.key]) in _combinations(keys) for keys in self.touched
        )


def _combinations(keys: TouchedKeys) -> set[tuple[str, ...] | None]:
    columns = [[_plain(value) for value in each.to_pylist()] for each in keys.values]
    return {_combine(values) for values in zip(*columns, strict=True)}


def _combine(values: Sequence[str | None]) -> tuple[str, ...] | None:
    """A combination of values; those with a null in them count as one, as in `RowFinder.find`."""
    there = tuple(value for value in values if value is not None)
    return there if len(there) == len(values) else None


def _plain(value: object) -> str | None:
    return None if value is None else str(value)


def make_trials(seed: int, histories: int) -> list[Trial]:
    """Trials of a seed's statement with other rows and changes each; none where it is refused."""
    random = Random(seed)
    statement = Grammar(random).statement()
    try:
        view = compile_view(ViewDefinition.of("shop.v", statement.sql, statement.key), TABLES)
    except ConfigurationError:
        return []
    return [_make_trial(Trial(f"{seed}.{number}", statement, view), random) for number in range(histories)]


def make_trial(seed: int) -> Trial | None:
    """A seed's trial whose changes touch something, if one of some does; None where the statement is refused."""
    trials = make_trials(seed, HISTORIES)
    return next((trial for trial in trials if trial.touched), trials[0] if trials else None)


def _make_trial(trial: Trial, random: Random) -> Trial:
    view, state = trial.view, {name: MemoryTable(each) for name, each in TABLES.items()}
    for each in state.values():
        each.rows = {key: _random_row(each.table, key, random) for key in random.sample(range(6), 4)}
    trial.states[BEFORE] = {name: each.arrow() for name, each in state.items()}
    changed = random.sample([*TABLES], random.choice([1, 1, 2]))
    changes = {name: _change(state[name], view.plan.columns.get(name, ()), random) for name in changed}
    changes = {name: each for name, each in changes.items() if each.old.num_rows + each.new.num_rows}
    trial.states[AFTER] = {name: each.arrow() for name, each in state.items()}
    trial.states[SHUFFLED] = {name: _shuffle(rows, random) for name, rows in trial.states[AFTER].items()}
    trial.is_unchanged = not changes
    if not any(view.plan.uses[alias].table in changes for alias in view.plan.whole):
        _refresh(trial, state, changes)
    return trial


def _refresh(trial: Trial, state: Mapping[TableName, MemoryTable], changes: Mapping[TableName, RowChanges]) -> None:
    """Find what a refresh looks at, as `views.refresh.refresh` does."""
    plan = trial.view.plan
    try:
        tables = trial.view.derived.attach(state, changes)
        trial.touched = [keys for keys in find_touched_keys(plan, tables) if len(keys)]
        needed = find_needed_rows(plan, trial.touched, tables)
    except NotDerivedError:
        trial.touched = None
        return
    # columns that nothing reads are null there
    trial.states[SOME] = {
        name: _complete(needed[name].select(plan.columns[name]), each) if name in needed else state[name].arrow([])
        for name, each in TABLES.items()
    }


def _complete(rows: pa.Table, table: Table) -> pa.Table:
    schema = arrow_schema(table)
    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _random_row(of: Table, key: int, random: Random) -> dict[str, object]:
    return {**{column.name: random.choice(_VALUES[column.kind]) for column in of.columns}, "id": key}


def _change(state: MemoryTable, read: Sequence[str], random: Random) -> RowChanges:
    """Change some rows; what nothing reads has not changed for a view."""
    before = dict(state.rows)
    for _ in range(random.randint(1, 3)):
        key = random.randrange(6)
        if random.random() < 0.3:
            state.rows.pop(key, None)
        elif key in state.rows and random.random() < 0.5:
            column = random.choice(state.table.columns[1:])
            state.rows[key] = {**state.rows[key], column.name: random.choice(_VALUES[column.kind])}
        else:
            state.rows[key] = _random_row(state.table, key, random)
    keys = [key for key in range(6) if _read(before.get(key), read) != _read(state.rows.get(key), read)]
    old, new = [before[k] for k in keys if k in before], [state.rows[k] for k in keys if k in state.rows]
    return RowChanges(state.arrow(old), state.arrow(new))


def _read(row: Mapping[str, object] | None, columns: Sequence[str]) -> list[object] | None:
    return None if row is None else [row[column] for column in columns]


def _shuffle(rows: pa.Table, random: Random) -> pa.Table:
    return rows.take(pa.array(random.sample(range(len(rows)), len(rows))))


def run_trials(spark: SparkSession, trials: Sequence[Trial]) -> list[Trial]:
    """Have Spark compute all states; returns the trials whose statements it understands."""
    _put_frames(spark, trials)
    understood = [trial for trial in trials if _is_understood(spark, trial)]
    with _planned_once(spark):
        for start in range(0, len(understood), _BATCH):
            _run(spark, understood[start : start + _BATCH])
    return [trial for trial in understood if len(trial.found) == len(trial.states)]


@contextmanager
def _planned_once(spark: SparkSession) -> Iterator[None]:
    """Without plans of a plan: each of hundreds of small stages would have all of them planned again."""
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
        ]
        # Spark reads no further than an empty chunk
        frame = spark.createDataFrame(pa.concat_tables(parts).combine_chunks(), row_type(marked))
        frame.createOrReplaceTempView(f"trial_{name.table}")


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
    branches = [(trial, at) for trial in trials for at in trial.states]
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
        found[row.state][_sort(row.row, by_mark[row.state][0].view.unordered)] += 1
    for trial, at in branches:
        trial.found[at] = found[_mark(trial, at)]


def _sort(row: str, unordered: Mapping[str, ListPaths]) -> str:
    """A row whose lists without an order are sorted, as a view holds them."""
    values = json.loads(row)
    sorted_ = {name: _sort_value(value, unordered.get(name.lower(), frozenset())) for name, value in values.items()}
    return json.dumps(sorted_, sort_keys=True)


def _sort_value(value: Any, paths: ListPaths) -> Any:
    if isinstance(value, list):
        inner = frozenset(path[1:] for path in paths if path and path[0] == ELEMENT)
        values = [_sort_value(each, inner) for each in value]
        return sorted(values, key=json.dumps) if () in paths else values
    if isinstance(value, dict):
        return {
            name: _sort_value(each, frozenset(p[1:] for p in paths if p and p[0].lower() == name.lower()))
            for name, each in value.items()
        }
    return value


def run_in_duckdb(trials: Sequence[Trial]) -> list[Trial]:
    """Compute all states of the trials whose statements DuckDB is proven to understand; returns those."""
    evaluator = Evaluator()
    for trial in trials:
        with suppress(duckdb.Error):
            trial.found = {at: _evaluate(evaluator, trial, rows) for at, rows in trial.states.items()}
    return [trial for trial in trials if trial.found]


def _evaluate(evaluator: Evaluator, trial: Trial, rows: Rows) -> Counter[str]:
    view, names = trial.view, trial.view.statement.tree.named_selects
    assert isinstance(view.duckdb, DuckStatement)
    tables = {view.names[name]: rows[name].select(view.plan.columns[name]) for name in view.tables}
    found = evaluator.evaluate(view.duckdb.sql, tables).rename_columns(names)
    return Counter(_sort(json.dumps(row, default=str), view.unordered) for row in found.to_pylist())


def find_wrong_in_duckdb(seeds: Sequence[int]) -> tuple[int, list[str]]:
    """As `find_wrong`, of statements that DuckDB evaluates, without Spark, and each with more histories."""
    made = [trial for seed in seeds for trial in make_trials(seed, HISTORIES)]
    trials = run_in_duckdb([trial for trial in made if isinstance(trial.view.duckdb, DuckStatement) and trial.touched])
    return len(trials), [*_describe(trials)]


def find_wrong(spark: SparkSession, seeds: Sequence[int]) -> tuple[int, list[str]]:
    """How many trials were compared, and those that are wrong, in words."""
    trials = run_trials(spark, [trial for seed in seeds if (trial := make_trial(seed))])
    return len(trials), [*_describe(trials)]


def _describe(trials: Sequence[Trial]) -> Iterator[str]:
    for trial in trials:
        if why := trial.explain_difference():
            yield f"seed {trial.seed}, key {trial.statement.key}: {trial.statement.sql}: {why}"

"""Random statements over random changes: a statement, its rows before and after, and what a refresh looks at.

A trial has no lake: its rows are in memory. `trial_runs.py` computes its states.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import ConfigurationError
from cdc.core.table import Kind, Table, TableName
from cdc.sinks.lake.table import row_changes
from cdc.sinks.lake.table.row_changes import RowChanges
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.refresh.derived import NotDerivedError
from cdc.views.refresh.needed import find_needed_rows
from cdc.views.refresh.touched import TouchedKeys, find_touched_keys
from tests.support.views.rows_as_text import name_value, read_values
from tests.support.views.statements.grammar import TABLES, Grammar, RandomStatement
from tests.unit.views.refresh.test_refresh import MemoryTable

Rows = Mapping[TableName, pa.Table]
BEFORE, AFTER, SHUFFLED, SOME = range(4)
"""The states of a trial: before the changes, after them, the same in another order, and the needed rows alone."""
BY_SPARK: Final = 4
"""What Spark makes of the state AFTER, where DuckDB computes the others."""
HISTORIES: Final = 5
_VALUES: Final[Mapping[Kind, Sequence[Any]]] = {
    Kind.INTEGER: [None, 0, 1, 2, 3],
    Kind.BIGINT: [None, 0, 1, 2, 3],
    Kind.TEXT: [None, "", "a", "B ", "2"],
    Kind.DECIMAL: [None, 0, 1, 2],
    Kind.DOUBLE: [None, 0.0, -0.0, 0.1, 0.2, 0.3, 1e16],
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
        if self.found.get(BY_SPARK, self.found[AFTER]) != self.found[AFTER]:
            return f"DuckDB has {self.found[AFTER]}, Spark {self.found[BY_SPARK]}"
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
        values = read_values(row)
        assert self.touched is not None
        return any(_combine([values.get(name) for name in keys.key]) in _combinations(keys) for keys in self.touched)


def _combinations(keys: TouchedKeys) -> set[tuple[object, ...] | None]:
    columns = [[name_value(value) for value in each.to_pylist()] for each in keys.values]
    return {_combine(values) for values in zip(*columns, strict=True)}


def _combine(values: Sequence[object]) -> tuple[object, ...] | None:
    """A combination of values; those with a null in them count as one, as in `RowFinder.find`."""
    there = tuple(value for value in values if value is not None)
    return there if len(there) == len(values) else None


def random_statement(seed: int) -> RandomStatement:
    """The statement of a seed."""
    return Grammar(Random(seed), odd=_oddity(seed)).statement()


def _oddity(seed: int) -> float:
    """How much of what nobody means: of every fourth statement, some."""
    return 0.5 if seed % 4 == 3 else 0


def make_trials(seed: int, histories: int) -> list[Trial]:
    """Trials of a seed's statement with other rows and changes each; none where it is refused."""
    random = Random(seed)
    statement = Grammar(random, odd=_oddity(seed)).statement()
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
    both = [key for key in before if key in state.rows]
    columns = [state.arrow([rows[key] for key in both]).select(read) for rows in (before, state.rows)]
    # as the lake's changes are compared
    same = {key for key, is_same in zip(both, np.asarray(row_changes._are_equal(*columns)), strict=True) if is_same}
    old, new = ([row for key, row in rows.items() if key not in same] for rows in (before, state.rows))
    return RowChanges(state.arrow(old), state.arrow(new))


def _shuffle(rows: pa.Table, random: Random) -> pa.Table:
    return rows.take(pa.array(random.sample(range(len(rows)), len(rows))))

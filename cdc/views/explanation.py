"""How changes reach a view, in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc.core.table import TableName
from cdc.views.compiled import CompiledView
from cdc.views.plan import Route, ViewPlan
from cdc.views.statement.analysis.computed_columns import PREFIX
from cdc.views.statement.dialect.statements import DuckStatement
from cdc.views.statement.dialect.values import Unproven


@dataclass(frozen=True, slots=True)
class ExplainedUse:
    """One use of a table in a statement: the way of a change to the view's rows."""

    table: str
    way: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """`uses`: one for each use of a table. `indexes`: the columns by which rows are found, per table.

    `unproven`: expressions for which Spark evaluates the touched rows, since DuckDB may give another result.
    """

    uses: Sequence[ExplainedUse]
    indexes: Sequence[tuple[TableName, tuple[str, ...]]]
    unproven: Sequence[Unproven]

    @property
    def engine(self) -> str:
        """The engine that evaluates the statement over the touched rows."""
        return "Spark" if self.unproven else "DuckDB"

    def as_json(self) -> dict[str, Any]:
        return {
            "uses": [use.as_json() for use in self.uses],
            "indexes": [{"table": str(table), "columns": list(columns)} for table, columns in self.indexes],
            "engine": self.engine,
            "unproven": [asdict(each) for each in self.unproven],
        }


def explain(view: CompiledView) -> Explanation:
    """Say for each use of a table how its changes reach the view, and what evaluates the statement."""
    plan = view.plan
    uses = [ExplainedUse(_name_use(plan, alias), _describe_way(plan, alias)) for alias in plan.uses]
    # an expression may be in several clauses
    unproven = () if isinstance(view.duckdb, DuckStatement) else [*dict.fromkeys(view.duckdb)]
    return Explanation(uses, _list_indexes(plan), unproven)


def _name_use(plan: ViewPlan, alias: str) -> str:
    use = plan.uses[alias]
    return str(use.table) if alias == use.table.table else f"{use.table} {alias}"


def _describe_way(plan: ViewPlan, alias: str) -> str:
    if alias in plan.whole:
        return f"computes the whole view: {plan.whole[alias]}"
    return "; or ".join(_describe_route(route) for route in plan.routes[alias])


def _describe_route(route: Route) -> str:
    key = ", ".join(_show(column, route.anchor.alias) for column in route.anchor.columns)
    steps = [
        f"{_show(mine, edge.left)} = {_show(theirs, edge.right)}"
        for edge in route.edges
        for mine, theirs in zip(edge.left_columns, edge.right_columns, strict=True)
    ]
    return f"by {', '.join(steps)}, to the key {key}" if steps else f"by its own {key}, in the view's key"


def _list_indexes(plan: ViewPlan) -> list[tuple[TableName, tuple[str, ...]]]:
    """The columns by which a refresh finds rows: at the anchors, along links, and along routes."""
    found = {(plan.uses[alias].table, tuple(_show(column) for column in columns)) for alias, columns in plan.found_by()}
    return sorted(found)


def _show(column: str, alias: str = "") -> str:
    """A column of a use, or the expression of a derived one."""
    if column.startswith(PREFIX):
        return f"{column.removeprefix(PREFIX)} of {alias}" if alias else column.removeprefix(PREFIX)
    return f"{alias}.{column}" if alias else column

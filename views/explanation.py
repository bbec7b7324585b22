"""How changes reach a view, in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc.core.table import TableName
from views.compiled import CompiledView
from views.plan import Route, ViewPlan
from views.statement.dialect.statements import DuckStatement
from views.statement.dialect.values import Unproven


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
    unproven = () if isinstance(view.duckdb, DuckStatement) else view.duckdb
    return Explanation(uses, _list_indexes(plan), unproven)


def _name_use(plan: ViewPlan, alias: str) -> str:
    use = plan.uses[alias]
    return str(use.table) if alias == use.table.table else f"{use.table} {alias}"


def _describe_way(plan: ViewPlan, alias: str) -> str:
    if alias in plan.whole:
        return f"computes the whole view: {plan.whole[alias]}"
    return "; or ".join(_describe_route(route) for route in plan.routes[alias])


def _describe_route(route: Route) -> str:
    key = ", ".join(f"{route.anchor.alias}.{column}" for column in route.anchor.columns)
    steps = [
        f"{edge.left}.{mine} = {edge.right}.{theirs}"
        for edge in route.edges
        for mine, theirs in zip(edge.left_columns, edge.right_columns, strict=True)
    ]
    return f"by {', '.join(steps)}, to the key {key}" if steps else f"by its own {key}, in the view's key"


def _list_indexes(plan: ViewPlan) -> list[tuple[TableName, tuple[str, ...]]]:
    """The columns by which a refresh finds rows: at the anchors, along links, and along routes."""
    links = [link for way in plan.ways.values() for link in way]
    anchors = [anchor for group in plan.ways for anchor in group.anchors]
    used = [(anchor.alias, anchor.columns) for anchor in anchors]
    used += [(edge.left, edge.left_columns) for link in links for edge in link.edges]
    used += [(e.right, e.right_columns) for routes in plan.routes.values() for route in routes for e in route.edges]
    return sorted({(plan.uses[alias].table, columns) for alias, columns in used})

"""The lists of a result whose order nobody decides: collect_list takes rows as they come.

Two engines, or one engine twice, give the same elements in another order. A view holds such a list sorted, wherever it
lies in the result. A function that would show the order is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from cdc.core.errors import ConfigurationError
from cdc.views.statement.entrance.admission import refuse
from cdc.views.statement.lineage import Lineage
from cdc.views.statement.statement import Statement

ListPath = tuple[str, ...]
"""The way from a column to a list in it: names of fields, and ELEMENT for the elements of a list."""
ELEMENT: Final = "[]"
ListPaths = frozenset[ListPath]
_NONE: Final[ListPaths] = frozenset()
_LISTS: Final = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_OF_ELEMENTS: Final = (exp.ArraySort, exp.ArrayContains, exp.ArrayMin, exp.ArrayMax, exp.Explode)
"""The same for any order of the elements."""


def find_unordered_lists(view: str, statement: Statement) -> Mapping[str, ListPaths]:
    """Per column of the result (lower case), the lists in it to be sorted.

    Raises ConfigurationError where a function would depend on the order.
    """
    finder = _Finder(view, Lineage(statement))
    root = finder.lineage.root
    for scope in finder.lineage.scopes:
        finder.check_clauses(scope)
    found = {name.lower(): finder.of_output(root, name) for name in finder.names(root)}
    return {name: paths for name, paths in found.items() if paths}


class _Finder:
    def __init__(self, view: str, lineage: Lineage) -> None:
        self._view = view
        self.lineage = lineage

    def check_clauses(self, scope: Scope) -> None:
        """Refuse what decides by such a list which rows there are, or how they are grouped."""
        query = scope.expression
        for pivot in query.find_all(exp.Pivot):
            if found := pivot.find(*_LISTS):
                self._refuse(found)
        if isinstance(query, exp.SetOperation):
            is_compared = query.args.get("distinct") or not isinstance(query, exp.Union)
            self._check_outputs(scope, query if is_compared else None)
        elif isinstance(query, exp.Select):
            self._check_outputs(scope, query.args.get("distinct"))
            for part in _deciding_parts(query):
                if self._of_value(scope, part):
                    self._refuse(part)

    def _check_outputs(self, scope: Scope, compared: exp.Expr | None) -> None:
        names = self.names(scope) if compared else []
        if compared and any(self.of_output(scope, name) for name in names):
            self._refuse(compared)

    def names(self, scope: Scope) -> list[str]:
        query = scope.expression
        return query.named_selects if isinstance(query, exp.Query) else []

    def of_output(self, scope: Scope, name: str) -> ListPaths:
        """The unordered lists in an output column of a query."""
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            at = self.names(scope).index(name)
            branches = [self.lineage.scope_of(branch) for branch in (query.left, query.right)]
            return _NONE.union(*(self.of_output(branch, self.names(branch)[at]) for branch in branches))
        if not isinstance(query, exp.Select):
            return _NONE
        return _NONE.union(*(self._of_value(scope, each) for each in query.selects if each.alias_or_name == name))

    def _of_value(self, scope: Scope, value: exp.Expr) -> ListPaths:
        match value:
            case exp.Alias() | exp.Paren() | exp.Filter() | exp.Window():
                return self._of_value(scope, value.this)
            case exp.Column():
                return self._of_column(scope, value)
            case exp.Struct():
                return frozenset(path for field in value.expressions for path in self._of_field(scope, field))
            case exp.Subquery():
                inner = self.lineage.scope_of(value)
                return self.of_output(inner, self.names(inner)[0])
            case _:
                return self._of_function(scope, value)

    def _of_function(self, scope: Scope, value: exp.Expr) -> ListPaths:
        children = (child for child in value.iter_expressions() if not isinstance(child, exp.Query))
        inside = _NONE.union(*(self._of_value(scope, child) for child in children))
        if isinstance(value, exp.ArrayAgg):
            return frozenset([(), *((ELEMENT, *path) for path in inside)])
        if isinstance(value, exp.ArrayUniqueAgg) and not inside:
            return frozenset([()])
        if isinstance(value, exp.Coalesce | exp.If | exp.Case):
            return inside
        return self._refuse(value) if inside and not _hides_order(value, inside) else _NONE

    def _of_field(self, scope: Scope, field: exp.Expr) -> Iterator[ListPath]:
        inner = field.expression if isinstance(field, exp.PropertyEQ) else field
        for path in self._of_value(scope, inner):
            yield (field.alias_or_name or field.name, *path)

    def _of_column(self, scope: Scope, column: exp.Column) -> ListPaths:
        here: Scope | None = scope
        while here is not None:
            if column.table in here.sources:
                source = here.sources[column.table]
                return self._of_source(source, column)
            here = here.parent
        return _NONE

    def _of_source(self, source: object, column: exp.Column) -> ListPaths:
        if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
            return self.of_output(source, column.name)
        inner = source.expression if isinstance(source, Scope) else source
        # a lateral view of such a list: its elements have no such list in them, else it is refused
        is_lateral_query = isinstance(inner, exp.Lateral) and not inner.args.get("view")
        found = inner.find(*_LISTS) if isinstance(inner, exp.Lateral) and is_lateral_query else None
        return self._refuse(found) if found else _NONE

    def _refuse(self, value: exp.Expr) -> ListPaths:
        what = value.sql(dialect="spark") + refuse(value, "", "").where
        raise ConfigurationError(
            f"views.{self._view}: {what} depends on the order in which collect_list takes rows",
            "sort its list: sort_array(collect_list(…))",
        )


def _hides_order(value: exp.Expr, inside: ListPaths) -> bool:
    """Whether an expression is the same for any order of these lists in its arguments."""
    if isinstance(value, exp.ArraySize | exp.Is | exp.Count):
        return not value.find(exp.Distinct)
    # an element may have lists itself, which would decide
    return isinstance(value, _OF_ELEMENTS) and not isinstance(value, exp.Posexplode) and inside <= {()}


def _deciding_parts(query: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a query that are no outputs: conditions, groups, orders, partitions."""
    conditions = [query.args.get(name) for name in ("where", "having", "qualify")]
    yield from (condition.this for condition in conditions if condition)
    yield from (on for join in query.args.get("joins") or [] if (on := join.args.get("on")))
    yield from (lateral.this for lateral in query.args.get("laterals") or [])
    yield from _items(query, "group")
    yield from _items(query, "order")
    for node in query.find_all(exp.Window, exp.Filter):
        if node.parent_select is query and isinstance(node, exp.Window):
            yield from node.args.get("partition_by") or []
            yield from _items(node, "order")
        elif node.parent_select is query:
            yield node.expression.this


def _items(node: exp.Expr, name: str) -> Iterator[exp.Expr]:
    clause = node.args.get(name)
    for part in clause.expressions if clause else []:
        yield part.this if isinstance(part, exp.Ordered) else part

"""The lists of a result whose order nobody decides: collect_list takes rows as they come.

Two engines, or one engine twice, give the same elements in another order. A view holds such a list sorted, wherever it
lies in the result. A function that would show the order is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from cdc.core.errors import ConfigurationError
from cdc.views.statement.entrance.admission import refuse
from cdc.views.statement.tree.nodes import (
    Derived,
    OpaqueSource,
    Query,
    Select,
    SetOperation,
    Tree,
    list_values,
    query_of,
)
from cdc.views.statement.tree.writing import walk_within, write

ListPath = tuple[str, ...]
"""The way from a column to a list in it: names of fields, and ELEMENT for the elements of a list."""
ELEMENT: Final = "[]"
ListPaths = frozenset[ListPath]
_NONE: Final[ListPaths] = frozenset()
_LISTS: Final = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_OF_ELEMENTS: Final = (exp.ArraySort, exp.ArrayContains, exp.ArrayMin, exp.ArrayMax, exp.Explode)
"""The same for any order of the elements."""


def find_unordered_lists(view: str, tree: Tree) -> Mapping[str, ListPaths]:
    """Per column of the result (lower case), the lists in it to be sorted.

    Raises ConfigurationError where a function would depend on the order.
    """
    finder = _Finder(view, tree)
    for query in tree.queries:
        finder.check_clauses(query)
    found = {output.name.lower(): finder.of_output(tree.root, output.name) for output in tree.root.outputs}
    return {name: paths for name, paths in found.items() if paths}


class _Finder:
    def __init__(self, view: str, tree: Tree) -> None:
        self._view = view
        self._tree = tree

    def check_clauses(self, query: Query) -> None:
        """Refuse what decides by such a list which rows there are, or how they are grouped."""
        for pivot in query.node.find_all(exp.Pivot):
            if found := pivot.find(*_LISTS):
                self._refuse(found)
        if isinstance(query, SetOperation) and query.compares_rows:
            self._check_outputs(query, query.node)
        elif isinstance(query, Select):
            self._check_outputs(query, query.clause("distinct"))
            for part in _deciding_parts(query.node):
                if self._of_value(part):
                    self._refuse(part)

    def _check_outputs(self, query: Query, compared: exp.Expr | None) -> None:
        if compared and any(self.of_output(query, output.name) for output in query.outputs):
            self._refuse(compared)

    def of_output(self, query: Query, name: str) -> ListPaths:
        """The unordered lists in an output column of a query."""
        return _NONE.union(*map(self._of_value, list_values(query, name)))

    def _of_value(self, value: exp.Expr) -> ListPaths:
        match value:
            case exp.Alias() | exp.Paren() | exp.Filter() | exp.Window():
                return self._of_value(value.this)
            case exp.Column():
                return self._of_column(value)
            case exp.Struct():
                return frozenset(path for field in value.expressions for path in self._of_field(field))
            case exp.Subquery():
                inner = query_of(value)
                return self.of_output(inner, inner.outputs[0].name) if inner and inner.outputs else _NONE
            case _:
                return self._of_function(value)

    def _of_function(self, value: exp.Expr) -> ListPaths:
        inside = _NONE.union(*map(self._of_value, value.iter_expressions()))
        if isinstance(value, exp.ArrayAgg):
            return frozenset([(), *((ELEMENT, *path) for path in inside)])
        # which of two equal lists a set keeps, their order would decide
        if isinstance(value, exp.ArrayUniqueAgg) and not inside:
            return frozenset([()])
        if isinstance(value, exp.Coalesce | exp.If | exp.Case):
            return inside
        return self._refuse(value) if inside and not _hides_order(value, inside) else _NONE

    def _of_field(self, field: exp.Expr) -> Iterator[ListPath]:
        inner = field.expression if isinstance(field, exp.PropertyEQ) else field
        for path in self._of_value(inner):
            yield (field.alias_or_name or field.name, *path)

    def _of_column(self, column: exp.Column) -> ListPaths:
        match self._tree.sources.get(column.table):
            case Derived(query=query):
                return self.of_output(query, column.name)
            case OpaqueSource(node=exp.Lateral() as node):
                # its elements have no such list in them, else it is refused
                found = next((part for part in walk_within(node) if isinstance(part, _LISTS)), None)
                return self._refuse(found) if found else _NONE
        return _NONE

    def _refuse(self, value: exp.Expr) -> ListPaths:
        what = write(value) + refuse(value, "", "").where
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
    yield from (on for join in query.find_all(exp.Join) if (on := join.args.get("on")))
    yield from (lateral.this for lateral in query.args.get("laterals") or [])
    yield from _items(query, "group")
    yield from _items(query, "order")
    for node in query.find_all(exp.Window, exp.Filter):
        if isinstance(node, exp.Window):
            yield from node.args.get("partition_by") or []
            yield from _items(node, "order")
        else:
            yield node.expression.this


def _items(node: exp.Expr, name: str) -> Iterator[exp.Expr]:
    clause = node.args.get(name)
    for part in clause.expressions if clause else []:
        yield part.this if isinstance(part, exp.Ordered) else part

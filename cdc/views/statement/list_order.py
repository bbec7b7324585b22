"""The lists of a result whose order nobody decides: collect_list takes rows as they come.

Two engines, or one engine twice, give the same elements in another order. A view holds such a list sorted, wherever it
lies in the result. A function that would show the order is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from cdc.core.errors import ConfigurationError
from cdc.views.statement.lineage import Lineage
from cdc.views.statement.statement import Statement

ListPath = tuple[str, ...]
"""The way from a column to a list in it: names of fields, and ELEMENT for the elements of a list."""
ELEMENT: Final = "[]"
ListPaths = frozenset[ListPath]
_NONE: Final[ListPaths] = frozenset()


def find_unordered_lists(view: str, statement: Statement) -> Mapping[str, ListPaths]:
    """Per column of the result (lower case), the lists in it to be sorted.

    Raises ConfigurationError where a function would depend on the order.
    """
    finder = _Finder(view, Lineage(statement))
    root = finder.lineage.root
    found = {name.lower(): finder.of_output(root, name) for name in finder.names(root)}
    return {name: paths for name, paths in found.items() if paths}


class _Finder:
    def __init__(self, view: str, lineage: Lineage) -> None:
        self._view = view
        self.lineage = lineage

    def names(self, scope: Scope) -> list[str]:
        query = scope.expression
        assert isinstance(query, exp.Query)
        return query.named_selects

    def of_output(self, scope: Scope, name: str) -> ListPaths:
        """The unordered lists in an output column of a query."""
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            at = self.names(scope).index(name)
            branches = [self.lineage.scope_of(branch) for branch in (query.left, query.right)]
            return _NONE.union(*(self.of_output(branch, self.names(branch)[at]) for branch in branches))
        if not isinstance(query, exp.Select):
            return _NONE
        return self._of_value(scope, next(each for each in query.selects if each.alias_or_name == name))

    def _of_value(self, scope: Scope, value: exp.Expr) -> ListPaths:
        match value:
            case exp.Alias() | exp.Paren():
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
        match value:
            case exp.ArrayAgg() | exp.ArrayUniqueAgg():
                return frozenset([(), *((ELEMENT, *path) for path in inside)])
            case exp.ArraySort():
                return inside - {()}
            case exp.Coalesce() | exp.If() | exp.Case():
                return inside
            # the same for any order of the elements
            case exp.ArraySize() | exp.ArrayContains() | exp.ArrayMin() | exp.ArrayMax():
                return _NONE
        return self._refuse(value) if inside else _NONE

    def _of_field(self, scope: Scope, field: exp.Expr) -> Iterator[ListPath]:
        inner = field.expression if isinstance(field, exp.PropertyEQ) else field
        for path in self._of_value(scope, inner):
            yield (field.alias_or_name or field.name, *path)

    def _of_column(self, scope: Scope, column: exp.Column) -> ListPaths:
        here: Scope | None = scope
        while here is not None:
            if column.table in here.sources:
                source = here.sources[column.table]
                return self.of_output(source, column.name) if isinstance(source, Scope) else _NONE
            here = here.parent
        return _NONE

    def _refuse(self, value: exp.Expr) -> ListPaths:
        raise ConfigurationError(
            f"views.{self._view}: {value.sql(dialect='spark')} depends on the order in which collect_list takes rows",
            "sort its list: sort_array(collect_list(…))",
        )

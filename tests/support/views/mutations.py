"""Old defects, put back one at a time: the random statements have to find each.

By the finding's name in the readings: B1 to B8, V1 to V5, and kinds beside them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from sqlglot import exp

from cdc.sinks.lake.table import row_changes
from cdc.views import compiled
from cdc.views.statement import normal_form, parsing
from cdc.views.statement.analysis import computed_columns, equivalences, floating_sums, list_order, provenance, ties
from cdc.views.statement.analysis.nullability import Nullability
from cdc.views.statement.analysis.provenance import NOWHERE, Provenance, Sources
from cdc.views.statement.dialect.expressions import literals
from cdc.views.statement.entrance import admission, allowed_nodes
from cdc.views.statement.tree import build, stars
from cdc.views.statement.tree.nodes import OpaqueSource, Query, SetOperation, Source

Patch = pytest.MonkeyPatch
_NEVER: Final = re.compile(r"(?!)")


def _forget_stars(patch: Patch) -> None:
    patch.setattr(build, "expand_stars", lambda query, sources: None)
    patch.setattr(parsing, "find_stars", lambda query: ())


def _name_fields_by_place(patch: Patch) -> None:
    def replace(holder: exp.Expr, columns: list[tuple[str | None, exp.Column]]) -> None:
        holder.replace([column for _, column in columns])

    patch.setattr(stars, "_replace_star", replace)


def _overlook_cuts(patch: Patch) -> None:
    """As it was: a set operation's LIMIT is looked at behind its branches, that of parentheses not at all."""
    real = Provenance.output

    def output(self: Provenance, query: Query, name: str) -> Sources:
        if not isinstance(query, SetOperation):
            return real(self, query, name)
        found = [self.output(branch, column) for branch, column in query.branches(name)]
        return frozenset[tuple[str, str]]().union(*found) if found and all(found) else NOWHERE

    patch.setattr(normal_form, "_CUTS", ())
    patch.setattr(Provenance, "output", output)


def _know_pivots(patch: Patch) -> None:
    patch.setitem(allowed_nodes.KNOWN, exp.Table, allowed_nodes.KNOWN[exp.Table] | {"pivots"})
    patch.setitem(allowed_nodes.KNOWN, exp.Subquery, allowed_nodes.KNOWN[exp.Subquery] | {"pivots"})
    for kind in (exp.Pivot, exp.PivotAlias, exp.PivotAny, exp.UnpivotColumns):
        patch.setitem(allowed_nodes.KNOWN, kind, frozenset(kind.arg_types))
    patch.setattr(admission, "_names_pivoted", lambda query: False)
    real = build._Builder._source

    def source(self: build._Builder, node: exp.Expr, around: build.Names) -> Source:
        found = real(self, node, around)
        return found.of if isinstance(found, OpaqueSource) and found.of else found

    patch.setattr(build._Builder, "_source", source)


def _trust_functions(patch: Patch) -> None:
    patch.setattr(admission, "REFUSED", {})
    patch.setattr(admission, "is_pure", lambda node: True)


def _read_naively(patch: Patch) -> None:
    """An expression of a computed column: that column's own expression is left out, and its column stands there."""

    def rename(self: computed_columns.ComputedColumns, value: exp.Expr, names: list[str]) -> exp.Expr:
        renamed = value.copy()
        for name, own in zip(names, [*renamed.find_all(exp.Column)], strict=True):
            inner = self._values.get(name, exp.column(name)).find(exp.Column)
            assert isinstance(inner, exp.Column)
            own.replace(exp.column(inner.name))
        return renamed

    patch.setattr(computed_columns.ComputedColumns, "_rename", rename)


def _trust_outer_joins(patch: Patch) -> None:
    """As if an outer join were an inner one."""
    patch.setattr(equivalences, "_filtered_by", lambda join, before: {*before, join.source.name})
    patch.setattr(Nullability, "may_be_missing", lambda self, query, name: False)


def _check_no_key(patch: Patch) -> None:
    for module in (parsing, compiled):
        patch.setattr(module, "check_key", lambda view, key, selects: None)


def _set(target: object, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(target, name, value)


MUTATIONS: Final[Mapping[str, Callable[[Patch], None]]] = {
    "B1 a star in a function reads nothing": _forget_stars,
    "B1 a star's fields have no names": _name_fields_by_place,
    "B2 every value is null without its row": _set(provenance, "is_strict", lambda value: True),
    "B3 LIMIT of a set operation or parentheses is not seen": _overlook_cuts,
    "B5 V1 PIVOT and UNPIVOT are parts like others": _know_pivots,
    "B6 zeros of two signs are equal": _set(row_changes, "_bits", lambda column: column.combine_chunks()),
    "B7 every function is pure": _trust_functions,
    "B7 special literals": _set(admission, "_SPECIAL", _NEVER),
    "B7 V5 TRANSFORM, versions, samples, AS (…)": _set(admission, "_FORBIDDEN", {}),
    "B7 variables": _set(admission, "_VARIABLE", _NEVER),
    "B7 ties in windows": _set(ties, "_goes_by_place", lambda window: False),
    "B7 ties before LIMIT": _set(ties, "_is_cut_certain", lambda identity, query: True),
    "B7 ties of max_by": _set(ties, "_is_extreme_certain", lambda identity, query, node: True),
    "B7 texts joined in no order": _set(ties, "_is_sorted_by_value", lambda node: True),
    "B7 lists sorted by hand": _set(ties, "_COMPARED", None),
    "B7 V3 sums of doubles": _set(floating_sums, "_SUMS", ()),
    "B7 lists whose order shows": _set(list_order, "_hides_order", lambda value, inside: True),
    "B8 names keep their letters": _set(parsing, "_fold", lambda part: part.name if part else ""),
    "B8 fields are in small letters": _set(literals, "spell", lambda identifier: identifier.name),
    "V1 an expression of an expression": _read_naively,
    "V1 a chain is as deep as it is long": _set(normal_form, "_balance", lambda node: None),
    "V5 hints are parts like others": _set(parsing, "drop_hints", lambda tree: None),
    "V5 a key may have a name twice": _check_no_key,
    "keys that an outer join leaves null": _trust_outer_joins,
    "windows restrict nothing": _set(provenance, "_may_restrict", lambda query, selected: True),
    "groupings are groups": _set(provenance, "_is_grouped_by", lambda group, selected: True),
}
"""By finding: how its defect is put back."""
OF_CHANGES: Final = ("B6 zeros of two signs are equal",)
"""Those that change no plan, but what counts as a change."""
SELDOM: Final = (*OF_CHANGES, "V1 an expression of an expression")
"""Those that show after few changes only."""

"""Texts that Spark takes for the present where it makes a time of them: `at < 'tomorrow'`, `to_date('now')`.

It does so for any constant text that is compared with a date or timestamp, or given to a function of them, without a
cast in the statement (Spark's optimizer rule SpecialDatetimeValues). Such a text is let in where it meets texts only.
"""

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import types as T
from sqlglot import exp

from cdc.columns.types.spark_types import spark_type
from cdc.views.statement.entrance.admission import Refused, refuse
from cdc.views.statement.entrance.functions import BY_TIME
from cdc.views.statement.tree.nodes import Derived, Scan, Tree, list_values

_SPECIAL: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*", re.IGNORECASE)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.In, exp.Between, exp.Like)
_TEXTS: Final = (exp.Upper, exp.Lower, exp.Trim, exp.Concat, exp.DPipe, exp.Substring)


def find_special_texts(tree: Tree) -> Iterator[Refused]:
    """The texts that may mean another time whenever the view is computed."""
    texts = _Texts(tree)
    for query in tree.queries:
        for literal in query.node.find_all(exp.Literal):
            if literal.is_string and _SPECIAL.fullmatch(literal.name) and not texts.meets_texts(literal):
                yield refuse(literal, literal.name, BY_TIME)
        for cast in query.node.find_all(exp.Cast):
            # a text that is put together is a constant to Spark, too
            if isinstance(cast.this, _TEXTS) and not cast.find(exp.Column) and not texts.is_text(cast):
                yield refuse(cast, "", BY_TIME)


class _Texts:
    """Which values are texts."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def meets_texts(self, value: exp.Expr) -> bool:
        """Whether a text is compared with texts only, and stands for one where it is a result."""
        parent = value.parent
        if isinstance(parent, exp.Select):
            return True
        if isinstance(parent, _COMPARISONS):
            return all(self.is_text(other) for other in parent.iter_expressions() if other is not value)
        if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case):
            return self._meets_texts_in_case(parent.parent, value)
        if isinstance(parent, exp.Alias | exp.Paren | exp.If | exp.Case | exp.Coalesce):
            return self.is_text(parent) and self.meets_texts(parent)
        return False

    def _meets_texts_in_case(self, case: exp.Case, value: exp.Expr) -> bool:
        if value.arg_key != "this":
            return self.is_text(case) and self.meets_texts(case)
        compared = case.this
        return isinstance(compared, exp.Expr) and self.is_text(compared)

    def is_text(self, value: exp.Expr) -> bool:
        match value:
            case exp.Literal():
                return value.is_string
            case exp.Column():
                return self._is_text_column(value)
            case exp.Cast():
                return value.to.is_type(*exp.DataType.TEXT_TYPES)
            case exp.Alias() | exp.Paren():
                return self.is_text(value.this)
            case exp.Case():
                results = [*(each.args["true"] for each in value.args["ifs"]), value.args.get("default")]
            case exp.If():
                results = [value.args["true"], value.args.get("false")]
            case exp.Coalesce():
                results = [value.this, *value.expressions]
            case _:
                return isinstance(value, (*_TEXTS, exp.Null))
        return all(self.is_text(each) for each in results if each is not None)

    def _is_text_column(self, column: exp.Column) -> bool:
        match self._tree.sources.get(column.table):
            case Scan(table=table):
                types = [spark_type(each) for each in table.columns if each.name.lower() == column.name.lower()]
                return bool(types) and all(isinstance(each, T.StringType) for each in types)
            case Derived(query=query):
                values = [*list_values(query, column.name)]
                return bool(values) and all(map(self.is_text, values))
        return False

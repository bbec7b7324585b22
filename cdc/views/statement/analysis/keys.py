"""Which columns decide which row of a query it is: what ties, in an order by them, is then one row, or equal rows."""

from collections.abc import Collection, Iterator

from sqlglot import exp

from cdc.core.table import Table
from cdc.sinks.lake.history.shape import SEQUENCE
from cdc.views.statement.analysis.equivalences import list_conditions
from cdc.views.statement.tree.nodes import Derived, Generated, Query, Scan, Select, SetOperation, Source, Tree
from cdc.views.statement.tree.writing import text_of, walk_within

Named = tuple[str, str]
"""A source, and a column of it."""


class RowIdentity:
    """Answers for one statement, by its tables' keys, its groups, and its equalities."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def decides(self, query: Select, known: Collection[exp.Expr]) -> bool:
        """Whether rows of a SELECT, before its own LIMIT, that have the same values of these expressions are equal."""
        # a row for each group: its expressions are its key
        if group := query.clause("group"):
            return _has_all(group, known)
        columns = _columns(known)
        found = self._close(query, columns)
        # rows that are equal in all that is read may change places, and nobody sees it
        return all(name in found or read <= columns for name, read in _read(query).items())

    def decides_value(self, query: Select, known: Collection[exp.Expr], value: exp.Expr) -> bool:
        """Whether rows of FROM that have the same values of these expressions have the same of another one."""
        columns = _columns(known)
        found = self._close(query, columns)
        return all((c.table, c.name) in columns or c.table in found for c in _columns_within(value))

    def _close(self, query: Select, known: set[Named]) -> set[str]:
        """The sources whose whole row is decided by these columns."""
        decided = set[str]()
        # one row becomes several, and their key knows nothing of that
        if query.list("laterals"):
            return decided
        sources = {source.name: source for source in query.shown}
        known = known | {*_equal_to_constants(query, sources)}
        # as functional dependencies are closed: a key decides its row, and an equality what it is equal to
        while True:
            undecided = (source for name, source in sources.items() if name not in decided)
            more = {source.name for source in undecided if self._decides_source(source, known)}
            reached = {*_follow(query, known, decided | more)} - known
            if not more and not reached:
                return decided
            decided |= more
            known |= reached

    def _decides_source(self, source: Source, known: Collection[Named]) -> bool:
        columns = {column.lower() for name, column in known if name == source.name}
        match source:
            case Scan(table=table):
                return _has_key(table, columns)
            case Derived(query=query):
                return self._decides_outputs(query, columns)
        return False

    def _decides_outputs(self, query: Query, names: Collection[str]) -> bool:
        """Whether these outputs decide the row of a subquery, which has no other like it then."""
        if isinstance(query, SetOperation):
            return query.is_distinct and {output.name for output in query.outputs} <= {*names}
        if not isinstance(query, Select) or _has_generator(query):
            return False
        outputs = [output.value for output in query.outputs if output.name in names]
        if query.clause("distinct") and len(outputs) == len(query.outputs):
            return True
        if group := query.clause("group"):
            return _has_all(group, outputs)
        return {source.name for source in query.shown} <= self._close(query, _columns(outputs))


def _has_key(table: Table, columns: Collection[str]) -> bool:
    # a history's number is unique without the key of its table
    keys = [{*table.key}, *([{SEQUENCE}] if SEQUENCE in table.key else [])]
    return any(key and {column.lower() for column in key} <= {*columns} for key in keys)


def _columns_within(value: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression, those in its queries among them."""
    for part in walk_within(value):
        if isinstance(part, exp.Column):
            yield part


def _read(query: Select) -> dict[str, set[Named]]:
    """Per source whose rows are among the query's, the columns that are read of it."""
    read: dict[str, set[Named]] = {source.name: set() for source in query.shown}
    read |= {source.name: set() for source in query.sources if isinstance(source, Generated)}
    for column in _columns_within(query.node):
        if column.table in read:
            read[column.table].add((column.table, column.name))
    return read


def _columns(values: Collection[exp.Expr]) -> set[Named]:
    found = set[Named]()
    for value in values:
        value = value.unnest()
        # equal structs have equal fields
        parts = value.expressions if isinstance(value, exp.Struct | exp.Tuple) else [value]
        parts = [part.expression if isinstance(part, exp.PropertyEQ) else part.unalias() for part in parts]
        found |= {(part.table, part.name) for part in parts if isinstance(part, exp.Column)}
    return found


def _has_all(group: exp.Expr, known: Collection[exp.Expr]) -> bool:
    texts = {text_of(value) for value in known}
    is_plain = all(not value for name, value in group.args.items() if name != "expressions")
    return is_plain and all(text_of(part) in texts for part in group.expressions)


def _has_generator(query: Select) -> bool:
    return bool(query.node.find(exp.UDTF, exp.Inline, exp.Stack))


def _equalities(condition: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    for part in list_conditions(condition):
        if isinstance(part, exp.EQ):
            yield part.this.unnest(), part.expression.unnest()
            yield part.expression.unnest(), part.this.unnest()


def _equal_to_constants(query: Select, names: Collection[str]) -> Iterator[Named]:
    """Columns that a filter compares with a literal, or with a value of the query around it."""
    where = query.clause("where")
    for one, other in _equalities(where.this) if where else ():
        is_constant = isinstance(other, exp.Literal) or (isinstance(other, exp.Column) and other.table not in names)
        if isinstance(one, exp.Column) and is_constant:
            yield one.table, one.name


def _follow(query: Select, known: Collection[Named], decided: Collection[str]) -> Iterator[Named]:
    """Columns that equalities with known ones decide."""
    where = query.clause("where")
    clauses: list[tuple[exp.Expr, str | None]] = [(where.this, None)] if where else []
    for join in query.joins:
        name, on = join.source.name, join.on
        if on and join.side == "LEFT" and join.kind not in ("SEMI", "ANTI"):
            # whether there is a row depends on the whole condition
            others = {column.table for column in _columns_within(on)} - {name}
            clauses += [(on, name)] if others <= {*decided} else []
        elif on and not join.side and join.kind in ("", "INNER"):
            clauses.append((on, None))
    for condition, only in clauses:
        for one, other in _equalities(condition):
            if isinstance(one, exp.Column) and isinstance(other, exp.Column) and only in (None, other.table):
                is_known = (one.table, one.name) in known or one.table in decided
                if is_known and other.table:
                    yield other.table, other.name

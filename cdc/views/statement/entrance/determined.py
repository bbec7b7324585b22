"""Which columns decide which row of a query it is: what ties, in an order by them, is then one row, or equal rows."""

from collections.abc import Collection, Iterator

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from cdc.sinks.lake.history.shape import SEQUENCE
from cdc.views.statement.lineage import Lineage
from cdc.views.statement.statement import Statement

Named = tuple[str, str]
"""A name in FROM, and a column of it."""


class RowIdentity:
    """Answers for one statement, by its tables' keys, its groups, and its equalities."""

    def __init__(self, statement: Statement, lineage: Lineage) -> None:
        self._statement = statement
        self._lineage = lineage

    def decides(self, scope: Scope, known: Collection[exp.Expr]) -> bool:
        """Whether rows of a SELECT, before its own LIMIT, that have the same values of these expressions are equal."""
        query = scope.expression
        group = query.args.get("group")
        if group:
            return _has_all(group, known)
        found = self._close(scope, _columns(known))
        return all(name in found or columns <= _columns(known) for name, columns in _read(scope).items())

    def decides_value(self, scope: Scope, known: Collection[exp.Expr], value: exp.Expr) -> bool:
        """Whether rows of FROM that have the same values of these expressions have the same of another one."""
        columns = _columns(known)
        found = self._close(scope, columns)
        return all((c.table, c.name) in columns or c.table in found for c in value.find_all(exp.Column))

    def _close(self, scope: Scope, known: set[Named]) -> set[str]:
        """The names in FROM whose whole row is decided by these columns."""
        query, decided = scope.expression, set[str]()
        if query.args.get("laterals"):
            return decided
        names = {*_names(query)}
        known = known | {*_equal_to_constants(query, names)}
        while True:
            more = {name for name in names - decided if self._decides_source(scope, name, known)}
            reached = {*_follow(query, known, decided | more)} - known
            if not more and not reached:
                return decided
            decided |= more
            known |= reached

    def _decides_source(self, scope: Scope, name: str, known: Collection[Named]) -> bool:
        columns = {column.lower() for source, column in known if source == name}
        source = scope.sources.get(name)
        if isinstance(source, exp.Table):
            use = self._statement.uses.get(id(source))
            return use is not None and self._has_key(use.table, columns)
        return isinstance(source, Scope) and self._decides_outputs(source, columns)

    def _has_key(self, name: object, columns: Collection[str]) -> bool:
        table = next(table for each, table in self._statement.tables.items() if each == name)
        # a history's number is unique without the key of its table
        keys = [{*table.key}, *([{SEQUENCE}] if SEQUENCE in table.key else [])]
        return any(key and {column.lower() for column in key} <= {*columns} for key in keys)

    def _decides_outputs(self, scope: Scope, names: Collection[str]) -> bool:
        """Whether these outputs decide the row of a subquery, which has no other like it then."""
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            return bool(query.args.get("distinct")) and {*query.named_selects} <= {*names}
        if not isinstance(query, exp.Select) or _has_generator(query):
            return False
        outputs = [part.unalias() for part in query.selects if part.alias_or_name in names]
        if query.args.get("distinct") and len(outputs) == len(query.selects):
            return True
        if query.args.get("group"):
            return _has_all(query.args["group"], outputs)
        return {*_names(query)} <= self._close(scope, _columns(outputs))


def _read(scope: Scope) -> dict[str, set[Named]]:
    """Per name in FROM whose rows are among the query's, the columns that are read of it."""
    read: dict[str, set[Named]] = {name: set() for name in _names(scope.expression)}
    for lateral in scope.expression.args.get("laterals") or []:
        read[lateral.alias_or_name] = set()
    for column in scope.columns:
        if column.table in read:
            read[column.table].add((column.table, column.name))
    return read


def _names(query: exp.Expr) -> Iterator[str]:
    first = query.args.get("from_")
    if first:
        yield first.this.alias_or_name
    for join in query.args.get("joins") or []:
        if join.kind not in ("SEMI", "ANTI"):
            yield join.this.alias_or_name


def _columns(values: Collection[exp.Expr]) -> set[Named]:
    found = set[Named]()
    for value in values:
        value = value.unnest()
        # equal structs have equal fields
        parts = value.expressions if isinstance(value, exp.Struct | exp.Tuple) else [value]
        parts = [part.expression if isinstance(part, exp.PropertyEQ) else part.unalias() for part in parts]
        found |= {(part.table, part.name) for part in parts if isinstance(part, exp.Column)}
    return found


def _has_all(group: exp.Group, known: Collection[exp.Expr]) -> bool:
    texts = {value.sql(dialect="spark") for value in known}
    is_plain = all(not value for name, value in group.args.items() if name != "expressions")
    return is_plain and all(part.sql(dialect="spark") in texts for part in group.expressions)


def _has_generator(query: exp.Select) -> bool:
    return bool(query.find(exp.UDTF, exp.Inline, exp.Stack))


def _equalities(condition: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        part = part.unnest()
        if isinstance(part, exp.EQ):
            yield part.this.unnest(), part.expression.unnest()
            yield part.expression.unnest(), part.this.unnest()


def _equal_to_constants(query: exp.Expr, names: Collection[str]) -> Iterator[Named]:
    """Columns that a filter compares with a literal, or with a value of the query around it."""
    where = query.args.get("where")
    for one, other in _equalities(where.this) if where else ():
        is_constant = isinstance(other, exp.Literal) or (isinstance(other, exp.Column) and other.table not in names)
        if isinstance(one, exp.Column) and is_constant:
            yield one.table, one.name


def _follow(query: exp.Expr, known: Collection[Named], decided: Collection[str]) -> Iterator[Named]:
    """Columns that equalities with known ones decide."""
    where, joins = query.args.get("where"), query.args.get("joins") or []
    clauses = [(where.this, None)] if where else []
    for join in joins:
        name, on = join.this.alias_or_name, join.args.get("on")
        if on and join.side == "LEFT" and join.kind not in ("SEMI", "ANTI"):
            # whether there is a row depends on the whole condition
            others = {column.table for column in on.find_all(exp.Column)} - {name}
            clauses += [(on, name)] if others <= {*decided} else []
        elif on and not join.side and join.kind in ("", "INNER"):
            clauses.append((on, None))
    for condition, only in clauses:
        for one, other in _equalities(condition):
            if isinstance(one, exp.Column) and isinstance(other, exp.Column) and only in (None, other.table):
                is_known = (one.table, one.name) in known or one.table in decided
                if is_known and other.table:
                    yield other.table, other.name

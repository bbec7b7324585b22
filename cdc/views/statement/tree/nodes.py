"""The tree of a statement: typed, closed, built once (`build.py`), and changed by nobody.

A query is one block, SELECT with all its clauses, since Spark's names and DuckDB's text are both of blocks. Its
expressions are sqlglot's, and end at its border: another query in them is a leaf (`Nested`), so that a walk over an
expression meets what this query computes, and nothing else.

Every source has a name that is unique in the statement, and every column is written with it. So a column says itself
where it comes from: `tree.sources[column.table]`, in whatever copy of it, without a look at the queries around.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from cdc.core.table import Table
from cdc.views.plan import TableUse


class Nested(exp.Expression):
    """A query inside of another one, as a leaf of what it stands in."""

    arg_types = {"query": True}  # noqa: RUF012 - as sqlglot declares it

    @property
    def query(self) -> "Query":
        query: Query = self.args["query"]
        return query


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A table, named in FROM. `name` is the alias of its use."""

    name: str
    use: TableUse
    table: Table


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A subquery in FROM."""

    name: str
    query: "Query"


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """LATERAL VIEW: rows that `call` makes of each row before it, with these columns."""

    name: str
    call: exp.Expr
    columns: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class OpaqueSource:
    """Anything else in FROM: VALUES, a subquery for each row, and what PIVOT makes of the source `of`.

    Nobody follows its columns, and it reads all columns of `of`. The queries in it are in the tree like others.
    """

    name: str
    node: exp.Expr
    of: "Source | None" = None


Source = Scan | Derived | Generated | OpaqueSource


@dataclass(frozen=True, slots=True, eq=False)
class Join:
    """`side`: LEFT, RIGHT, FULL or nothing. `kind`: SEMI, ANTI, CROSS, INNER, OUTER or nothing."""

    source: Source
    side: str
    kind: str
    on: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result. `node`: its expression, perhaps with an alias."""

    name: str
    node: exp.Expr

    @property
    def value(self) -> exp.Expr:
        return self.node.unalias()


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """A block. `sources`: all in FROM, of LATERAL VIEW, too. `first`: what stands behind FROM, with `joins` to others.

    `is_chain`: each join is between all that is before it and one more source; otherwise nobody follows its columns.
    """

    node: exp.Select
    sources: Sequence[Source]
    first: Source | None = field(repr=False)
    joins: Sequence[Join] = field(repr=False)
    is_chain: bool

    @property
    def outputs(self) -> Sequence[Output]:
        return [Output(part.alias_or_name, part) for part in self.node.selects]

    def clause(self, name: str) -> exp.Expr | None:
        """A clause by sqlglot's name: where, group, having, qualify, distinct, order, limit, offset."""
        found: exp.Expr | None = self.node.args.get(name)
        return found

    def list(self, name: str) -> Sequence[exp.Expr]:
        """A clause of several parts: windows, laterals."""
        found: Sequence[exp.Expr] = self.node.args.get(name) or []
        return found

    @property
    def shown(self) -> Iterator[Source]:
        """The sources in FROM whose rows are among the query's: not those of a SEMI or ANTI JOIN."""
        hidden = [join.source for join in self.joins if join.kind in ("SEMI", "ANTI")]
        views = [source for source in self.sources if isinstance(source, Generated)]
        return (source for source in self.sources if source not in [*hidden, *views])


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation:
    """UNION, EXCEPT or INTERSECT."""

    node: exp.SetOperation
    left: "Query"
    right: "Query"

    @property
    def is_distinct(self) -> bool:
        return bool(self.node.args.get("distinct"))

    @property
    def compares_rows(self) -> bool:
        """Whether it asks which rows are the same."""
        return self.is_distinct or not isinstance(self.node, exp.Union)

    @property
    def outputs(self) -> Sequence[Output]:
        return self.left.outputs

    def branches(self, name: str) -> Iterator[tuple["Query", str]]:
        """The two sides, each with its own name for an output column; they correspond by place."""
        names = [output.name for output in self.outputs]
        for side in (self.left, self.right) if name in names else ():
            if len(side.outputs) == len(names):
                yield side, side.outputs[names.index(name)].name


@dataclass(frozen=True, slots=True, eq=False)
class OpaqueQuery:
    """A query of another form: nobody knows its columns."""

    node: exp.Expr
    outputs: Sequence[Output] = ()


Query = Select | SetOperation | OpaqueQuery


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole statement. `queries`: the innermost first. `uses`: of tables. `owners`: the query of each source."""

    root: Query
    queries: Sequence[Query]
    uses: Sequence[TableUse]
    sources: Mapping[str, Source]
    owners: Mapping[str, Select]

    @property
    def selects(self) -> Iterator[Select]:
        return (query for query in self.queries if isinstance(query, Select))

    def walk(self) -> Iterator[exp.Expr]:
        """All parts of all queries."""
        for query in self.queries:
            yield from query.node.walk()

    def columns(self) -> Iterator[exp.Column]:
        """All columns that the statement names."""
        return (node for node in self.walk() if isinstance(node, exp.Column))


def list_values(query: Query, name: str) -> Iterator[exp.Expr]:
    """The expressions that give an output column, one for each branch of a UNION and its like."""
    if isinstance(query, SetOperation):
        for branch, column in query.branches(name):
            yield from list_values(branch, column)
    else:
        yield from (output.value for output in query.outputs if output.name == name)


def query_of(value: object) -> Query | None:
    """The query that an expression is, perhaps in parentheses; None if it is another one."""
    while isinstance(value, exp.Subquery | exp.Paren):
        value = value.this
    return value.query if isinstance(value, Nested) else None

"""Builds the tree of a statement from what sqlglot has qualified; from here on, nobody looks at names in FROM again.

The builder is closed: each kind of source and query that it knows is named here, and all else is opaque.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from sqlglot import exp

from cdc.core.table import Table
from cdc.views.plan import TableUse
from cdc.views.statement.tree.nodes import (
    Derived,
    Generated,
    Join,
    Nested,
    OpaqueQuery,
    OpaqueSource,
    Query,
    Scan,
    Select,
    SetOperation,
    Source,
    Tree,
)
from cdc.views.statement.tree.stars import expand_stars
from cdc.views.statement.tree.writing import note_table

FindTable = Callable[[exp.Table], Table | None]
"""The table that a node names; None if it is none that is followed."""
_NAME: Final = "unique name"
_NO_SOURCE: Final = "?"
"""The source of a column that no query around it has: sqlglot lets no other through, but a name must not mean one."""
Names = Mapping[str, str]
"""What a query calls its sources, and those around it, and what they are called in the tree."""


def build_tree(tree: exp.Query, find_table: FindTable) -> Tree:
    """The tree of a qualified query without common table expressions. The query is taken apart by it."""
    builder = _Builder(find_table)
    builder.name_sources(tree)
    root = builder.query(tree, {})
    return Tree(root, builder.queries, builder.uses, builder.sources, builder.owners)


@dataclass(slots=True)
class _Builder:
    find_table: FindTable
    queries: list[Query] = field(default_factory=list)
    uses: list[TableUse] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    owners: dict[str, Select] = field(default_factory=dict)
    taken: set[str] = field(default_factory=lambda: {"", _NO_SOURCE})

    def name_sources(self, tree: exp.Query) -> None:
        """Give each source a name: tables first, so that a use of one is called as the user called it."""
        for table in tree.find_all(exp.Table):
            table.meta[_NAME] = self._free_name(table.alias_or_name)
            if found := self.find_table(table):
                self.uses.append(TableUse(table.meta[_NAME], found.name))
        # then all else, with names that no table has
        for node in tree.find_all(exp.Subquery, exp.UDTF):
            node.meta[_NAME] = self._free_name(node.alias_or_name)

    def _free_name(self, wanted: str) -> str:
        name = next(name for name in (f"{wanted}{suffix}" for suffix in _suffixes()) if name not in self.taken)
        self.taken.add(name)
        return name

    def query(self, node: exp.Expr, around: Names) -> Query:
        """A query, whose columns may be those of sources around it."""
        inner = node.unnest()
        match inner:
            case exp.Select():
                made: Query = self._select(inner, around)
            case exp.SetOperation():
                made = self._set_operation(inner, around)
            case _:
                self._bind(inner, around)
                made = OpaqueQuery(inner)
        self.queries.append(made)
        return made

    def _set_operation(self, node: exp.SetOperation, around: Names) -> SetOperation:
        # in a loop: a UNION of a thousand branches is as deep on its left side
        chain = [node]
        while isinstance(left := chain[-1].left.unnest(), exp.SetOperation):
            chain.append(left)
        sides = [self._cut_out(chain[-1].left.unnest(), around)]
        for each in reversed(chain):
            right = self._cut_out(each.right.unnest(), around)
            self._bind(each, around)
            made = SetOperation(each, sides.pop(), right)
            if each is not node:
                each.replace(Nested(query=made))
                self.queries.append(made)
                sides.append(made)
        return made

    def _cut_out(self, node: exp.Expr, around: Names) -> Query:
        """Build a query, and leave a leaf in its place."""
        leaf = Nested(query=None)
        node.replace(leaf)
        query = self.query(node, around)
        leaf.args["query"] = query
        return query

    def _select(self, node: exp.Select, around: Names) -> Select:
        names, sources, joins = dict[str, str](), list[Source](), list[Join]()
        first = node.args.get("from_")
        for named in _list_named(node):
            source = self._source(named, around)
            sources.append(source)
            names.setdefault(named.alias_or_name, source.name)
        by_name = {source.name: source for source in sources}
        for join in node.args.get("joins") or []:
            if (found := by_name.get(_unwrap(join.this).meta.get(_NAME, ""))) is not None:
                joins.append(Join(found, join.side, join.kind, join.args.get("on")))
        start = by_name.get(_unwrap(first.this).meta.get(_NAME, "")) if first else None
        made = Select(node, sources, start, joins, first is None or _joins_from_left(node))
        self.sources |= by_name
        self.owners |= dict.fromkeys(by_name, made)
        # before columns are bound, since a star is no column of a source
        if made.is_chain:
            shown = {source.name for source in made.shown}
            expand_stars(node, {name: by_name[unique] for name, unique in names.items() if unique in shown})
        self._bind(node, {**around, **names})
        return made

    def _source(self, node: exp.Expr, around: Names) -> Source:
        name = node.meta[_NAME] = node.meta.get(_NAME) or self._free_name(node.alias_or_name)
        source: Source = OpaqueSource(name, node)
        if isinstance(node, exp.Table):
            table = self.find_table(node)
            source = Scan(name, TableUse(name, table.name), table) if table else source
        elif isinstance(node, exp.Subquery):
            # it does not see its neighbours in FROM: that would be LATERAL
            source = Derived(name, self._cut_out(node.unnest(), around))
        elif isinstance(node, exp.Lateral) and node.args.get("view"):
            source = Generated(name, node.this, node.alias_column_names)
        # after the source itself: what it reads is in the tree, what PIVOT makes of it is not
        if node.args.get("pivots"):
            return OpaqueSource(name, node, source)
        return source

    def _bind(self, block: exp.Expr, names: Names) -> None:
        """Name the sources of a block's columns, and cut its queries out."""
        # the walk is over before anything is cut
        nodes = [*block.walk(prune=lambda node: node is not block and _is_border(node))]
        for column in nodes:
            if isinstance(column, exp.Column) and isinstance(table := column.args.get("table"), exp.Identifier):
                note_table(table)
                table.set("this", names.get(table.name, _NO_SOURCE))
        for inner in nodes:
            if inner is not block and _is_border(inner):
                self._cut_out(inner, names)


def _suffixes() -> Iterator[str]:
    yield ""
    yield from (f"#{number}" for number in count(2))


def _is_border(node: exp.Expr) -> bool:
    return isinstance(node, exp.Select | exp.SetOperation)


def _list_named(node: exp.Select) -> Iterator[exp.Expr]:
    """What has a name in FROM, within parentheses, too."""
    first = node.args.get("from_")
    waiting = [*([first.this] if first else []), *(join.this for join in node.args.get("joins") or [])]
    waiting += node.args.get("laterals") or []
    for named in waiting:
        if _is_in_parentheses(named):
            waiting.append(named.this)
        else:
            yield named
        waiting += [join.this for join in named.args.get("joins") or []]


def _joins_from_left(query: exp.Select) -> bool:
    """Is each join between all that is named before it and one more name?

    Not in `a LEFT JOIN (b JOIN c ON ...) ON ...`, nor in `a, b RIGHT JOIN c ON ...`, where `a` stands alone. sqlglot
    reads the comma as CROSS JOIN, so neither is taken.
    """
    joins = query.args.get("joins") or []
    named = [query.args["from_"].this, *(join.this for join in joins)]
    if any(_is_joined(each) for each in named):
        return False
    crossed = [at for at, join in enumerate(joins) if join.kind == "CROSS"]
    return not any(join.side in ("RIGHT", "FULL") for join in joins[min(crossed, default=len(joins)) :])


def _is_in_parentheses(named: exp.Expr) -> bool:
    """Are these parentheses around names in FROM, not around a query?"""
    inner = named.this if isinstance(named, exp.Subquery) else None
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias or inner.args.get("joins")) or _is_in_parentheses(inner)
    return isinstance(inner, exp.Table)


def _is_group(named: exp.Expr) -> bool:
    """Are names joined in these parentheses, or may they be?"""
    return _is_in_parentheses(named) and (isinstance(named.this, exp.Table) or _is_joined(named.this))


def _is_joined(named: exp.Expr) -> bool:
    return bool(named.args.get("joins")) or _is_group(named)


def _unwrap(named: exp.Expr) -> exp.Expr:
    return _unwrap(named.this) if _is_in_parentheses(named) else named

"""The tree is closed: whatever sqlglot can make of a statement is known to it, or reads all and gives no key."""

import pytest
from sqlglot import exp

from cdc.views.statement.analysis.demand import list_read_columns
from cdc.views.statement.analysis.determinism import find_refused
from cdc.views.statement.analysis.list_order import find_unordered_lists
from cdc.views.statement.analysis.provenance import NOWHERE, Provenance
from cdc.views.statement.dialect.statements import DuckStatement, compute_in_duckdb, write_statement
from cdc.views.statement.entrance.admission import admit
from cdc.views.statement.entrance.allowed_nodes import KNOWN
from cdc.views.statement.entrance.functions import PURE_CLASSES
from cdc.views.statement.parsing import parse_statement
from cdc.views.statement.planning import plan_view
from cdc.views.statement.statement import Statement
from cdc.views.statement.tree.build import build_tree
from cdc.views.statement.tree.nodes import Derived, Generated, Nested, OpaqueQuery, OpaqueSource, Scan, Select
from cdc.views.statement.tree.writing import write
from tests.unit.views.statement.test_admission import TABLES, A, function_classes

CLASSES = sorted((kind for kind in function_classes(exp.Expression) - {Nested}), key=lambda kind: kind.__name__)
"""All node classes of sqlglot."""


def make(kind: type[exp.Expr]) -> exp.Expr:
    """A node of a class, with as much in it as no node of the class is without."""
    if issubclass(kind, exp.SetOperation):
        return kind(this=exp.select("1"), expression=exp.select("1"))
    if issubclass(kind, exp.Cast):
        return kind(this=exp.Null(), to=exp.DataType.build("int"))
    if kind in (exp.From, exp.Join):
        return kind(this=exp.table_("x"))
    return kind(this="f") if kind is exp.Anonymous else kind()


def select_from(node: exp.Expr) -> exp.Select:
    """`SELECT s.id AS id FROM node AS s`."""
    node.set("alias", exp.TableAlias(this=exp.to_identifier("s")))
    query = exp.Select(expressions=[exp.alias_(exp.column("id", table="s"), "id")])
    query.set("from_", exp.From(this=node))
    return query


def statement_of(query: exp.Query) -> Statement:
    admission = admit(query)
    tree = build_tree(query, lambda table: A if table.name == "a" else None)
    return Statement("", tree, {A.name: A}, (), (), admission)


def joined_source(node: exp.Expr) -> type:
    """The kind of source that a node is behind JOIN."""
    node.set("alias", exp.TableAlias(this=exp.to_identifier("s")))
    query = exp.select("a.id").from_("a")
    query.append("joins", exp.Join(this=node, on=exp.true()))
    root = statement_of(query).tree.root
    assert isinstance(root, Select)
    [join] = root.joins
    return type(join.source)


def test_there_are_classes() -> None:
    assert len(CLASSES) > 1000


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not exp.Subquery], ids=lambda kind: kind.__name__)
def test_every_class_in_from_is_known_or_opaque(kind: type[exp.Expr]) -> None:
    query = select_from(make(kind))
    query.append("joins", exp.Join(this=exp.table_("a"), kind="CROSS"))
    statement = statement_of(query)
    [source] = [each for each in statement.tree.sources.values() if each.name != "a"]
    assert joined_source(make(kind)) == OpaqueSource
    assert isinstance(source, OpaqueSource)
    assert Provenance(statement).output(statement.tree.root, "id") == NOWHERE
    assert not isinstance(write_statement(statement, {A.name: "a"}), DuckStatement)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_in_an_expression_is_known_or_makes_the_view_whole(kind: type[exp.Expr]) -> None:
    query = exp.select(exp.alias_(exp.column("id", table="a"), "id"), exp.alias_(make(kind), "v")).from_("a")
    statement = statement_of(query)
    if kind not in KNOWN.keys() | PURE_CLASSES and not statement.admission.refused:
        assert statement.admission.opaque
        plan = plan_view(statement, ["id"], compute_in_duckdb)
        assert plan.whole.keys() == {"a"}
        assert plan.columns == {A.name: [*A.column_names]}
        assert not isinstance(write_statement(statement, {A.name: "a"}), DuckStatement)


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
def test_an_argument_that_is_not_known_makes_the_view_whole(kind: type[exp.Expr]) -> None:
    for name in kind.arg_types.keys() - KNOWN[kind]:
        found = admit(kind(**{name: exp.Literal.string("x")}))
        assert found.opaque or found.refused, name


def test_a_query_of_another_form_has_no_columns() -> None:
    tree = build_tree(exp.Subquery(this=exp.table_("a")), lambda _: A)
    assert isinstance(tree.root, OpaqueQuery)
    assert not tree.root.outputs


SAME_NAMES = (
    "SELECT a.id, (SELECT max(a.y) FROM b AS a WHERE a.y = 1) AS m, s.id AS other FROM a"
    " JOIN (SELECT a.id FROM c AS a) s ON s.id = a.id WHERE EXISTS (SELECT 1 FROM a AS s WHERE s.id = a.id)"
)


def test_a_column_says_itself_where_it_comes_from_and_so_does_its_copy() -> None:
    tree = parse_statement("v", SAME_NAMES, TABLES).tree
    assert {name: type(source) for name, source in tree.sources.items()} == {
        **{"a": Scan, "a#2": Scan, "a#3": Scan, "s": Scan},
        "s#2": Derived,
    }
    columns = [node.copy() for node in tree.walk() if isinstance(node, exp.Column)]
    assert len(columns) == 9
    for column in columns:
        source = tree.sources[column.table]
        assert not isinstance(source, Scan) or column.name in {each.lower() for each in source.table.column_names}
    assert {column.table for column in columns} == tree.sources.keys()


def test_a_walk_ends_at_the_border_of_a_query() -> None:
    tree = parse_statement("v", SAME_NAMES, TABLES).tree
    assert isinstance(tree.root, Select)
    assert len(tree.queries) == 4
    assert len([*tree.root.node.find_all(exp.Select)]) == 1
    assert len([*tree.root.node.find_all(Nested)]) == 3
    assert not [*tree.root.node.find_all(exp.Max)]


def test_nobody_changes_it() -> None:
    statement = parse_statement("v", SAME_NAMES, TABLES)
    before = [query.node.copy() for query in statement.tree.queries]
    assert not find_refused(statement)
    assert not find_unordered_lists("v", statement.tree)
    assert plan_view(statement, ["id"], compute_in_duckdb).whole
    assert isinstance(write_statement(statement, {name: name.table for name in TABLES}), DuckStatement)
    assert [repr(query.node) for query in statement.tree.queries] == [repr(node) for node in before]


def test_an_expression_is_written_with_its_queries_and_the_names_of_the_user() -> None:
    tree = parse_statement("v", SAME_NAMES, TABLES).tree
    assert write(tree.root.outputs[1].value) == "(SELECT MAX(a.y) AS _col_0 FROM public.b AS a WHERE a.y = 1)"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT a.id, g.e FROM a LATERAL VIEW explode(array(a.x)) g AS e", Generated),
        ("SELECT a.id, g.e FROM a CROSS JOIN VALUES (1) AS g(e)", OpaqueSource),
        ("SELECT a.id, g.e FROM a, LATERAL (SELECT b.y AS e FROM b WHERE b.a_id = a.id) AS g", OpaqueSource),
        ("SELECT a.id, g.y FROM a JOIN (SELECT a_id, y FROM b) g ON g.a_id = a.id", Derived),
    ],
)
def test_sources(sql: str, kind: type) -> None:
    tree = parse_statement("v", sql, TABLES).tree
    assert isinstance(tree.sources["g"], kind)


def test_what_is_pivoted_is_read_whole() -> None:
    statement = parse_statement("v", "SELECT a_id, `1` FROM b PIVOT (max(id) FOR y IN (1))", TABLES)
    [source] = statement.tree.sources.values()
    assert isinstance(source, OpaqueSource)
    assert isinstance(source.of, Scan)
    assert list_read_columns(statement) == {source.of.table.name: [*source.of.table.column_names]}

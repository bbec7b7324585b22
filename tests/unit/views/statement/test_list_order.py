"""Lists whose order nobody decides are sorted wherever they lie; functions that would show the order are refused."""

import pyarrow as pa
import pytest

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import ConfigurationError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.refresh.sorted_lists import sort_lists
from cdc.views.statement.analysis.list_order import ELEMENT, ListPath, find_unordered_lists
from cdc.views.statement.parsing import parse_statement
from tests.unit.views.refresh.test_refresh import TABLES


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("collect_list(b.y)", [()]),
        ("coalesce(collect_set(b.y), array())", [()]),
        ("struct(collect_list(b.y) AS l, 1 AS n)", [("l",)]),
        ("sort_array(collect_list(b.y))", []),
        ("size(collect_list(b.y))", []),
        ("array(3, 1)", []),
        ("(SELECT collect_list(c.z) FROM c WHERE c.a_id = a.id)", [()]),
    ],
)
def test_unordered_lists_are_found(value: str, paths: list[ListPath]) -> None:
    sql = f"SELECT a.id, {value} AS v FROM a LEFT JOIN b ON b.a_id = a.id GROUP BY a.id"
    assert find_unordered_lists("v", parse_statement("v", sql, TABLES).tree).get("v", frozenset()) == frozenset(paths)


def test_lists_in_elements_of_lists_are_found() -> None:
    sql = (
        "SELECT a.id, collect_list(struct(s.id, s.inner)) AS outer FROM a LEFT JOIN (SELECT b.id, b.a_id,"
        " collect_list(c.z) AS inner FROM b LEFT JOIN c ON c.b_id = b.id GROUP BY b.id, b.a_id) s ON s.a_id = a.id"
        " GROUP BY a.id"
    )
    found = find_unordered_lists("v", parse_statement("v", sql, TABLES).tree)
    assert found == {"outer": frozenset({(), (ELEMENT, "inner")})}


@pytest.mark.parametrize("value", ["concat_ws(',', collect_list(b.t))", "collect_list(b.y)[0]"])
def test_functions_that_show_the_order_are_refused(value: str) -> None:
    tables = {**TABLES}
    sql = f"SELECT a.id, {value} AS v FROM a JOIN b ON b.a_id = a.id GROUP BY a.id".replace("b.t", "a.t")
    with pytest.raises(ConfigurationError, match=r"depends on the order .* → sort its list: sort_array"):
        find_unordered_lists("v", parse_statement("v", sql, tables).tree)


def test_lists_are_sorted_at_every_depth() -> None:
    fields = (Column("id", Kind.INTEGER), Column("inner", Kind.INTEGER, array=True))
    table = Table(TableName("a", "b"), (Column("outer", Kind.STRUCT, array=True, fields=fields),), ())
    lists = [
        [{"id": 3, "inner": [3, 1]}, {"id": 1, "inner": None}, None],
        None,
        [],
        [{"id": None, "inner": []}, {"id": 2, "inner": [2, 1]}],
    ]
    rows = pa.Table.from_pylist([{"outer": each} for each in lists], arrow_schema(table))
    # a slice shares the buffers of the whole
    for start in range(len(lists)):
        found = sort_lists(rows.slice(start), table, {"outer": frozenset({(), (ELEMENT, "inner")})})
        assert [row["outer"] for row in found.to_pylist()] == [
            [None, {"id": 1, "inner": None}, {"id": 3, "inner": [1, 3]}],
            None,
            [],
            [{"id": 2, "inner": [1, 2]}, {"id": None, "inner": []}],
        ][start:]

"""The block of views: statements, names, and the followers that hold them."""

from typing import Any

import pytest
from pydantic import ValidationError

from cdc.core.table import TableName
from cdc.views.statement.final_windows import list_read_tables
from tests.unit.config.test_settings import SEARCH, made

TOTALS = {"key": ["customer_id"], "sql": "SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id"}


def with_view(**view: Any) -> dict[str, Any]:
    return {"shop.totals": {**TOTALS, **view}}


def test_followers_hold_the_views_that_they_name() -> None:
    lake = {"kind": "delta", "path": "lake"}
    followers = {"lake": lake, "cards": {**SEARCH, "prefix": "a", "tables": ["shop.totals"]}, "search": SEARCH}
    settings = made(views=with_view(), followers=followers)
    view, table = TableName("shop", "totals"), TableName("public", "orders")
    assert [settings.holds(name, view) for name in followers] == [False, True, False]
    assert [settings.holds(name, table) for name in followers] == [True, False, True]
    assert [settings.holds_views(name) for name in followers] == [False, True, False]


@pytest.mark.parametrize(
    ("views", "told"),
    [
        (with_view(sql="SELEC 1"), "line 1, column 7"),
        (with_view(sql="SELECT 1; SELECT 2"), "it is no single SELECT"),
        (
            with_view(sql="SELECT * FROM shop.others"),
            "reads shop.others, which is none of source.tables, no history and no view",
        ),
        ({"public.orders": TOTALS}, "has the name of a table that is followed"),
        (
            {"a.a": {"key": ["x"], "sql": "SELECT x FROM a.b"}, "a.b": {"key": ["x"], "sql": "SELECT x FROM a.a"}},
            "read each other",
        ),
    ],
)
def test_wrong_views_are_found_in_the_file(views: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told.replace(".", r"\.")):
        made(views=views)


def test_a_follower_names_tables_and_views_only() -> None:
    followers = {"lake": {"kind": "delta", "path": "lake"}, "search": {**SEARCH, "tables": ["shop.other"]}}
    with pytest.raises(ValidationError, match=r"shop\.other is none of source\.tables and no view"):
        made(views=with_view(), followers=followers)


def test_no_follower_has_the_name_of_the_views() -> None:
    followers = {"lake": {"kind": "delta", "path": "lake"}, "views": SEARCH}
    with pytest.raises(ValidationError, match="is the name of the views' own stream"):
        made(followers=followers)


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ({"key": ["id", "ID"], "sql": "SELECT id FROM orders"}, "its key has id twice"),
        ({"key": ["nope"], "sql": "SELECT id FROM orders"}, "its result has no column nope, which is in its key"),
        ({"key": ["id"], "sql": "SELECT id,\n rand() AS v FROM orders"}, r"rand is refused \(line 2, column 2\)"),
        ({"key": ["id"], "sql": "SELECT id, '${env:HOME}' AS v FROM orders"}, r"\$\{env:HOME\} is refused"),
        ({"key": ["id"], "sql": f"SELECT id FROM orders WHERE {'(' * 99}1 = 1{')' * 99}"}, "it is nested too deep"),
        ({"key": ["id"], "sql": "SELECT id FROM `Orders`"}, r"reads public\.Orders.*: write `public`\.`orders`"),
    ],
)
def test_what_the_statement_alone_shows_is_told(view: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        made(views={"shop.v": view})


def test_a_table_is_found_in_other_letters_as_in_postgres() -> None:
    settings = made(views={"shop.v": {"key": ["id"], "sql": "SELECT id FROM ORDERS o JOIN PUBLIC.Orders p USING (id)"}})
    assert list_read_tables(settings.view_definitions[0]) == [TableName("public", "orders")]


WINDOWS = "SELECT window.start AS id, count(*) AS n FROM events GROUP BY window(at, '1 minute')"
IDS = {"key": ["id"], "sql": "SELECT id FROM events"}


@pytest.mark.parametrize(
    "name", ["", ".v", "s.", "s. ", "s.\n", "s.a\0", f"s.{'v' * 64}", f"s.{'ä' * 32}", f"{'s' * 64}.v"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is no name of a view"):
        made(views={name: {"key": ["id"], "sql": "SELECT id FROM orders"}})


@pytest.mark.parametrize(
    "name", ["s.V", "s.größe", "s.a b", "s.a.b", 's.a"b', "s.a`b", "s./x", "s.%41", f"s.{'v' * 63}"]
)
def test_any_other_name_is_taken(name: str) -> None:
    assert made(views={name: {"key": ["id"], "sql": "SELECT id FROM orders"}}).views


@pytest.mark.parametrize(
    ("views", "told"),
    [
        (["s.v", "s.V"], "has the name of view s.v, up to the case"),
        (["v", "public.v"], "has the name of view v, up to the case"),
        (["public.Events"], r"has the name of table public\.events, up to the case"),
        (["public.events"], "has the name of a table that is followed"),
        (["s.m", "s.m_late"], r"needs s\.m_late for what comes too late, and that has the name of view s\.m_late"),
        (["s.M_Late", "s.m"], r"needs s\.m_late for what comes too late, and that has the name of view s\.M_Late"),
        (["public.m"], r"needs public\.m_late for what comes too late, and that has the name of a table"),
    ],
)
def test_no_view_takes_the_place_of_another_name(views: list[str], told: str) -> None:
    closing = {"key": ["id"], "sql": WINDOWS, "final_after": "1 minute"}
    named = {name: closing if name.endswith(".m") else IDS for name in views}
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.events", "public.m_late"]}
    with pytest.raises(ValidationError, match=told):
        made(source=source, history=["public.events"], views=named)

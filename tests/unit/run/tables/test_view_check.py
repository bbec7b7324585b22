"""`cdc config check` refuses views that would stop over the tables as they are; without any server."""

from pathlib import Path
from typing import Any

import pytest

from cdc.config.errors import SettingsRefusedError
from cdc.config.settings import PipelineSettings
from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.pipeline import Pipeline
from cdc.run.tables import view_check
from cdc.run.tables.view_check import check_views
from tests.support.views.kept import KeptWithoutSpark
from tests.support.views.sales import CUSTOMERS, NAMES, put_customers
from tests.unit.config.test_settings import made

ORDERS = Table(
    TableName("public", "orders"),
    (Column("id", Kind.INTEGER), Column("customer_id", Kind.INTEGER), Column("total", Kind.DOUBLE)),
    ("id",),
)


def settings_with(*, lake: str = "lake", **views: str) -> PipelineSettings:
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.*"]}
    named: dict[str, Any] = {f"shop.{name}": {"key": ["id"], "sql": sql} for name, sql in views.items()}
    followers = {"lake": {"kind": "delta", "path": lake}}
    return made(source=source, followers=followers, views=named, history=["public.orders"])


REFUSED = {
    "sums": ("SELECT customer_id AS id, sum(total) AS v FROM orders GROUP BY customer_id", "sum is refused"),
    "ties": (
        "SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY total) AS v FROM orders",
        "row_number is",
    ),
    "columns": ("SELECT id, nope FROM orders", "nope"),
    "key": ("SELECT * EXCEPT (id) FROM orders", "has no column id"),
    "history": ("SELECT id, sum(total) AS v FROM orders_history GROUP BY id", "sum is refused"),
}


def test_each_view_is_refused_by_its_name_and_place() -> None:
    views = {name: sql for name, (sql, _) in REFUSED.items()}
    settings = settings_with(**views, right="SELECT id, total FROM orders", waits="SELECT id FROM elsewhere")
    with pytest.raises(SettingsRefusedError) as refused:
        check_views(Pipeline(settings), [ORDERS])
    assert refused.value.exit_code == 2
    found = dict(line.removeprefix("views.shop.").split(": ", 1) for line in refused.value.lines)
    assert found.keys() == REFUSED.keys()
    assert [name for name, (_, told) in REFUSED.items() if told not in found[name]] == []


def test_an_error_that_nobody_thought_of_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_none(*_: object) -> None:
        raise StopIteration

    monkeypatch.setattr(view_check, "compile_view", compile_none)
    with pytest.raises(SettingsRefusedError, match=r"views\.shop\.v: an error that cdc does not know .*StopIteration"):
        check_views(Pipeline(settings_with(v="SELECT id FROM orders")), [ORDERS])


def test_a_view_over_another_one_is_asked_about_once_the_lake_has_that(tmp_path: Path) -> None:
    views = {
        "sales.names": {"key": list(NAMES.key), "sql": NAMES.sql},
        "shop.over": {"key": ["id"], "sql": "SELECT id, nope FROM sales.names"},
    }
    source = {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": ["public.*"]}
    settings = made(source=source, followers={"lake": {"kind": "delta", "path": str(tmp_path / "none")}}, views=views)
    check_views(Pipeline(settings), [CUSTOMERS])
    kept = KeptWithoutSpark(tmp_path, [CUSTOMERS], [NAMES])
    put_customers(kept, 1)
    kept.keeper.bring(kept.source.cut())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pipeline, "views", kept.store)
        with pytest.raises(SettingsRefusedError, match=r"^views\.shop\.over: .*nope"):
            check_views(Pipeline(settings), [CUSTOMERS])

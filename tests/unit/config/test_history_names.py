"""Nothing else has the name of a history: what the file shows of that is refused before anything runs."""

from typing import Any

import pytest
from pydantic import ValidationError

from cdc.core.table import TableName
from cdc.sinks.lake.history.shape import find_tracked
from tests.unit.config.test_settings import SEARCH, made

SUMS = {"key": ["customer_id"], "sql": "SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id"}


def source(*tables: str) -> dict[str, Any]:
    return {"host": "h", "dbname": "d", "user": "u", "password": "p", "tables": list(tables)}


@pytest.mark.parametrize(
    "name", ["public.orders_history", "public.ORDERS_history", "orders_history_2", "Orders_History"]
)
@pytest.mark.parametrize("tables", [["public.orders"], ["public.*", "!public.orders_*", "!*.O*_*"]])
def test_no_view_has_the_name_of_a_history(name: str, tables: list[str]) -> None:
    with pytest.raises(ValidationError, match=r"is what the history of public\.orders is named, or may be"):
        made(source=source(*tables), history=["public.orders"], views={name: SUMS})


@pytest.mark.parametrize("taken", ["public.orders_history", "public.orders_history_2", "public.Orders_History"])
def test_no_table_has_the_name_of_a_history(taken: str) -> None:
    with pytest.raises(ValidationError, match=rf"its history would be {taken}, which is a table that is followed"):
        made(source=source("public.orders", taken), history=["public.orders"])


@pytest.mark.parametrize("other", ["public.orders_history", "public.orders_history_3", "public.ORDERS_HISTORY"])
def test_no_history_has_the_name_of_another_ones_table(other: str) -> None:
    with pytest.raises(ValidationError, match=r"is what the history of public\.orders is named, or may be"):
        made(source=source("public.*"), history=["public.orders", other])


@pytest.mark.parametrize("again", ["orders", "public.orders", "public.Orders"])
def test_a_history_is_named_once(again: str) -> None:
    with pytest.raises(ValidationError, match=r"is there twice, or differs from another one by its case only"):
        made(source=source("public.*"), history=["public.orders", again])


@pytest.mark.parametrize(
    "name", ["orders_history_x", "orders_histories", "orders_history_", "order_history", "a.orders_history"]
)
def test_other_names_are_free(name: str) -> None:
    assert find_tracked(TableName.parse(name), [TableName("public", "orders")]) is None


def test_only_who_names_an_epoch_reads_it() -> None:
    followers = {"lake": {"kind": "delta", "path": "lake"}, "search": SEARCH}
    view = {
        "key": ["id"],
        "sql": "SELECT id, total FROM orders_history UNION ALL SELECT id, total FROM orders_history_2",
    }
    settings = made(source=source("public.*"), history=["public.orders"], followers=followers, views={"a.b": view})
    for epoch in ("orders_history", "orders_history_2"):
        assert not settings.holds("search", TableName("public", epoch))

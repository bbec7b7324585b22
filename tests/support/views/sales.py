"""Customers, their orders, and two views of them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.definition import ViewDefinition
from tests.support.model import Row
from tests.support.views.kept import Kept

CUSTOMERS = Table(TableName("public", "customers"), (Column("id", Kind.INTEGER), Column("name", Kind.TEXT)), ("id",))
ORDERS = Table(
    TableName("public", "orders"),
    (
        Column("id", Kind.BIGINT),
        Column("customer_id", Kind.INTEGER),
        Column("total", Kind.DECIMAL, 10, 2),
        Column("placed_at", Kind.TIMESTAMPTZ),
    ),
    ("id",),
)
TABLES = (CUSTOMERS, ORDERS)


COUNTS = ViewDefinition.of(
    "sales.counts",
    "SELECT c.id, c.name, count(o.id) AS orders, sum(o.total) AS spent FROM customers c"
    " LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name",
    ["id"],
)
NAMES = ViewDefinition.of("sales.names", "SELECT id, name FROM customers", ["id"])


def order(number: int, random: Random) -> Row:
    placed = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randrange(100))
    customer = random.choice([None, *range(6)])
    return {"id": number, "customer_id": customer, "total": Decimal(random.randrange(900)) / 100, "placed_at": placed}


def put_customers(kept: Kept, *numbers: int, name: str = "a") -> None:
    for number in numbers:
        kept.source.put("customers", {"id": number, "name": name})


def an_order(number: int, customer: int, total: int = 1) -> dict[str, Any]:
    return {
        "id": number,
        "customer_id": customer,
        "total": Decimal(total),
        "placed_at": datetime(2026, 1, 1, tzinfo=UTC),
    }

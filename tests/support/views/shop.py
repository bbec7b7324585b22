"""An order as one nested document, made of five tables."""

from datetime import datetime
from decimal import Decimal

from cdc.core.table import Kind
from cdc.views.definition import ViewDefinition
from tests.support.views.random_history import side

_CUSTOMERS, _ORDERS, _PRODUCTS, _ADDRESSES = range(4), range(6), range(4), range(5)

SIDES = (
    side("customers", ["id"], {"id": (Kind.INTEGER, _CUSTOMERS), "name": (Kind.TEXT, ["ann", "bob", None])}),
    side(
        "addresses",
        ["id"],
        {
            "id": (Kind.INTEGER, _ADDRESSES),
            "customer_id": (Kind.INTEGER, [None, *_CUSTOMERS]),
            "city": (Kind.TEXT, ["Rome", "Łódź", None]),
        },
    ),
    side(
        "orders",
        ["id"],
        {
            "id": (Kind.BIGINT, _ORDERS),
            "customer_id": (Kind.INTEGER, [None, *_CUSTOMERS]),
            "address_id": (Kind.INTEGER, [None, *_ADDRESSES]),
            "placed_at": (Kind.TIMESTAMP, [datetime(2026, 1, day) for day in range(1, 9)]),
        },
    ),
    side(
        "items",
        ["order_id", "line"],
        {
            "order_id": (Kind.BIGINT, _ORDERS),
            "line": (Kind.SMALLINT, range(3)),
            "product_id": (Kind.INTEGER, [None, *_PRODUCTS]),
            "quantity": (Kind.INTEGER, [1, 2, 7, None]),
        },
    ),
    side(
        "products",
        ["id"],
        {
            "id": (Kind.INTEGER, _PRODUCTS),
            "name": (Kind.TEXT, ["cup", "pen", None]),
            "price": (Kind.DECIMAL, [Decimal("0.05"), Decimal("19.90"), None]),
        },
    ),
)
CARD = ViewDefinition.of(
    "shop.card",
    "WITH lines AS (SELECT i.order_id, sum(i.quantity * p.price) AS total,"
    " collect_list(struct(i.line, p.name, i.quantity, p.price)) AS items"
    " FROM items i LEFT JOIN products p ON p.id = i.product_id GROUP BY i.order_id),"
    " places AS (SELECT customer_id, collect_list(struct(id, city)) AS places FROM addresses GROUP BY customer_id)"
    " SELECT o.id, o.placed_at, struct(c.id, c.name, s.places) AS customer, struct(a.id, a.city) AS address,"
    " l.items, l.total FROM orders o LEFT JOIN customers c ON c.id = o.customer_id"
    " LEFT JOIN addresses a ON a.id = o.address_id LEFT JOIN lines l ON l.order_id = o.id"
    " LEFT JOIN places s ON s.customer_id = c.id",
    ["id"],
)
SOLD = ViewDefinition.of(
    "shop.sold",
    "SELECT p.id, p.name, count(DISTINCT o.customer_id) AS customers, sum(i.quantity) AS sold FROM products p"
    " LEFT JOIN items i ON i.product_id = p.id LEFT JOIN orders o ON o.id = i.order_id GROUP BY p.id, p.name",
    ["id"],
)
VIEWS = (CARD, SOLD)

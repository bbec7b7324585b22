"""The goals of views: when a refresh shows a commit, what a view costs, and cards that are equal in any order."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="the bench group is not installed")

from deltalake import write_deltalake

from tests.bench.goal import Failed
from tests.bench.goals.derived.view_fill import told_seconds
from tests.bench.goals.derived.view_idle import index_bytes
from tests.bench.goals.derived.view_lag import POSTGRES, SPARK, Kept, less
from tests.bench.world.contents import Contents, differences
from tests.bench.world.derived import cards
from tests.bench.world.derived.views import RefreshSight
from tests.bench.world.ledger import Commit

Row = dict[str, Any]
AT = datetime(2026, 11, 26, 5, 40, 22, 308181, UTC)
ORDER = {"id": 11, "placed_at": AT, "total": Decimal("1.10")}
NO_ORDER = {"id": None, "placed_at": None, "total": None}
LISTED = pa.struct([("id", pa.int64()), ("placed_at", pa.timestamp("us", "UTC")), ("total", pa.decimal128(12, 2))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("orders", pa.int64()),
        ("spent", pa.decimal128(22, 2)),
        ("list", pa.list_(LISTED)),
    ]
)


def card(key: int, *orders: Row, name: str = "a") -> Row:
    spent = sum((each["total"] for each in orders), Decimal(0)) if orders else None
    return {"id": key, "name": name, "orders": len(orders), "spent": spent, "list": list(orders) or [NO_ORDER]}


def contents(tmp_path: Path, *rows: Row) -> Contents:
    write_deltalake(tmp_path / "cards", pa.Table.from_pylist(list(rows), SCHEMA), mode="overwrite")
    return cards.in_delta(tmp_path / "cards")


def test_a_refresh_shows_what_was_committed_before_it_began(tmp_path: Path) -> None:
    told = tmp_path / "told"
    refreshes = [{"pid": 7}, {"began": 1.0, "ended": 3.0}, {"began": 3.5, "ended": 6.0}]
    told.write_text("".join(f"{json.dumps(line)}\n" for line in refreshes) + '{"began": 6.5, "en')
    seen = RefreshSight(told).seen_at([Commit(1, 100, 0.5), Commit(2, 200, 1.5), Commit(3, 300, 3.6)])
    assert seen[:2] == [3.0, 6.0]
    assert math.isnan(seen[2])


def test_costs_are_compared_in_all_and_each_time() -> None:
    found = less(Kept(2.0, 20), {POSTGRES: Kept(40.0, 4)})
    assert found == {"less_postgres": 20.0, "each_less_postgres": 100.0}
    assert less(Kept(-0.1, 20), {POSTGRES: Kept(40.0, 4), SPARK: Kept(9.0, 2)}) == {}


def test_the_order_of_cards_and_of_their_lists_does_not_matter(tmp_path: Path) -> None:
    other = {**ORDER, "id": 12, "total": Decimal("2.20")}
    first = contents(tmp_path, card(1, ORDER, other), card(2))
    assert first == contents(tmp_path, card(2), card(1, other, ORDER))


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        (card(1, ORDER, name="b"), "name"),
        (card(1, ORDER, ORDER), "orders"),
        (card(1, {**ORDER, "id": 12}), "list"),
        (card(1, {**ORDER, "placed_at": AT.replace(microsecond=1)}), "list"),
        (card(1), "list"),
    ],
)
def test_what_differs_in_a_card_is_found(tmp_path: Path, changed: Row, column: str) -> None:
    found = differences("card", contents(tmp_path, card(1, ORDER)), contents(tmp_path, changed))
    assert column in found[0].removeprefix("card differs in ").split(", ")


def test_documents_and_parts_of_a_view_hold_the_same(tmp_path: Path) -> None:
    whole = contents(tmp_path, card(1, ORDER), card(2))
    document = card(1, ORDER) | {"spent": "1.10"}
    document["list"] = [{"id": 11, "placed_at": "2026-11-26T05:40:22.308181Z", "total": "1.10"}]
    assert differences("the index", whole, cards.in_documents([document, card(2)])) == []
    assert cards.added([contents(tmp_path, card(1, ORDER)), contents(tmp_path, card(2))]) == whole


def test_the_newest_fill_is_read_of_what_was_said() -> None:
    said = "view shop.card: 10 rows computed in 3.1 s\nview shop.card: 10 rows computed in 12.4 s\nviews: caught up"
    assert told_seconds(said) == 12.4
    with pytest.raises(Failed, match="no view was filled"):
        told_seconds("views: caught up")


def test_bytes_are_of_every_index_by_the_rows_of_its_table(tmp_path: Path) -> None:
    def write(size: int, *place: str) -> None:
        file = tmp_path.joinpath(*place, "run")
        file.parent.mkdir(parents=True)
        file.write_bytes(bytes(size))

    write(240, "orders", "customer_id")
    write(30, "customers", "id")
    write(110, "orders", "rows", "some")
    found = index_bytes([(tmp_path / "orders", 10), (tmp_path / "customers", 1)])
    assert found == {"index_bytes": 270 / 11, "copy_bytes": 10.0}

"""The connector's properties: nobody overrides those that decoding depends on."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from psycopg import Connection
from pydantic import ValidationError

from cdc.connect.capture.debezium_properties import (
    BOUNDED_JSON,
    CONFIRMED_LSN,
    POSTGRES_TEXT,
    CapturedTables,
    build_properties,
)
from cdc.connect.fixed_properties import DECIDED, FIXED
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.registration import Registration
from cdc.core.table import TableName

TABLE = TableName("public", "orders")
PRICES = {TABLE: ["price"]}
PLUGINS = {POSTGRES_TEXT, BOUNDED_JSON, CONFIRMED_LSN}
TUNED = ("database.", "producer.override.", "max.", "message.prefix.", "errors.", "retriable.")
TUNED_ONES = {"heartbeat.interval.ms", "extended.headers.enabled", "poll.interval.ms", "value.converter.max.bytes"}


class Server:
    """A connection that only tells the server's version and its wal_sender_timeout."""

    adapters = psycopg.adapters
    connection = None
    info = SimpleNamespace(server_version=170_000)

    def execute(self, *_: object) -> Any:
        return SimpleNamespace(fetchone=lambda: (60_000,))


def properties(
    plugins: set[str], texts: Mapping[TableName, Sequence[str]] = PRICES, **overrides: str
) -> dict[str, str]:
    source = SourceSettings(host="db", dbname="shop", user="cdc", password="p", tables=["public.orders"])
    captured = CapturedTables([TABLE], {TABLE: ["id"]}, texts, 1_000_000, plugins)
    # unchecked, as if the list of decided properties lacked one
    capture = CaptureSettings(url="http://connect").model_copy(update={"overrides": overrides})
    return build_properties(
        cast(Connection, Server()), source, capture, Registration("shop", "slot", "publication", "shop"), captured
    )


@pytest.mark.parametrize("plugins", [set(), PLUGINS], ids=["without plugins", "with plugins"])
def test_every_property_is_decided_or_known_as_tunable(plugins: set[str]) -> None:
    tunable = {name for name in properties(plugins) if name.startswith(TUNED) or name in TUNED_ONES}
    assert properties(plugins).keys() - tunable == properties(plugins).keys() & DECIDED - tunable


def test_an_override_wins_over_tunable_properties_only() -> None:
    overrides = {"errors.max.retries": "0", "slot.name": "other", **dict.fromkeys(FIXED, "other")}
    made = properties(set(), PRICES, **overrides)
    assert made["errors.max.retries"] == "0"
    assert {name: made[name] for name in FIXED} == dict(FIXED)
    assert made["slot.name"] == "slot"


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_the_configuration_refuses_an_override_of_a_decided_property(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be overridden"):
        CaptureSettings(url="http://connect", overrides={name: "other"})


def test_each_line_of_the_texts_is_one_column_whatever_characters_a_name_has() -> None:
    odd = {TableName("public", "a\tb\nc%09"): ["d\te"], TABLE: ["price", "tax"]}
    lines = properties(PLUGINS, texts=odd)["exact.texts"].split("\n")
    assert lines == ["public.a%09b%0ac%2509\td%09e", "public.orders\tprice", "public.orders\ttax"]

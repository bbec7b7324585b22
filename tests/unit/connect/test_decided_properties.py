"""The connector's properties: nobody overrides those that decoding depends on."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from psycopg import Connection
from pydantic import ValidationError

from cdc.connect.capture.debezium_properties import (
    BOUNDED_JSON,
    CONFIRMED_LSN,
    POSTGRES_TEXT,
    WHOLE_TRANSACTIONS,
    CapturedTables,
    build_properties,
)
from cdc.connect.fixed_properties import FIXED
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.registration import Registration
from cdc.connect.tunable_properties import TUNABLE, find_refusal
from cdc.core.table import TableName

TABLE = TableName("public", "orders")
PRICES = {TABLE: ["price"]}
PLUGINS = {POSTGRES_TEXT, BOUNDED_JSON, CONFIRMED_LSN}
WITH_DEFAULTS = (
    "value.converter.max.bytes",
    "heartbeat.interval.ms",
    "database.hostname",
    "database.port",
    "database.dbname",
)
"""Properties that have a setting of ours."""
PROMISED = (
    "column.exclude.list",
    "converters",
    "errors.tolerance",
    "exact.texts",
    "flush.lsn.source",
    "message.key.columns",
    "post.processors",
    "predicates",
    "producer.override.acks",
    "producer.override.enable.idempotence",
    "producer.override.partitioner.class",
    "schema.name.adjustment.mode",
    "signal.data.collection",
    "slot.stream.params",
    "snapshot.select.statement.overrides",
    "topic.creation.default.partitions",
    "topic.delimiter",
    "topic.heartbeat.prefix",
    "topic.transaction",
    "transaction.metadata.factory",
    "transforms",
    "transforms.mine.type",
    "unavailable.value.placeholder",
)
"""Properties that are left at their defaults, or that we set: another value would break what we promise."""


class Server:
    """A connection that only tells the server's version and its wal_sender_timeout."""

    adapters = psycopg.adapters
    connection = None
    info = SimpleNamespace(server_version=170_000)

    def cursor(self, **_: object) -> Any:
        return self

    def execute(self, *_: object) -> Any:
        return SimpleNamespace(fetchone=lambda: 60_000)


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
def test_every_property_is_tunable_or_refused(plugins: set[str]) -> None:
    made = properties(plugins).keys()
    assert made & TUNABLE >= {"database.user", "errors.max.retries", "poll.interval.ms"}
    assert all(find_refusal(name) for name in made - TUNABLE - {"database.sslmode"})
    assert not FIXED.keys() & TUNABLE


def test_offsets_are_moved_back_before_the_lsn_that_they_confirm_is_written() -> None:
    made = properties({WHOLE_TRANSACTIONS, CONFIRMED_LSN})
    assert made["transforms"].split(",") == ["whole", "confirmed"]
    assert (made["transforms.whole.type"], made["transforms.confirmed.type"]) == (WHOLE_TRANSACTIONS, CONFIRMED_LSN)
    # an older jar lacks one
    assert properties({CONFIRMED_LSN})["transforms"] == "confirmed"
    assert "transforms" not in properties(set())


def test_an_override_wins_over_tunable_properties_only() -> None:
    overrides = {"errors.max.retries": "0", "slot.name": "other", **dict.fromkeys(FIXED, "other")}
    made = properties(set(), PRICES, **overrides)
    assert made["errors.max.retries"] == "0"
    assert {name: made[name] for name in FIXED} == dict(FIXED)
    assert made["slot.name"] == "slot"


@pytest.mark.parametrize("name", [*FIXED, *PROMISED, *WITH_DEFAULTS])
def test_the_configuration_refuses_an_override_of_what_promises_rest_on(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be overridden"):
        CaptureSettings(url="http://connect", overrides={name: "other"})


@given(st.from_regex(r"[a-z]+(\.[a-z]+){0,4}", fullmatch=True).filter(lambda name: name not in TUNABLE))
def test_what_is_not_known_cannot_be_overridden(name: str) -> None:
    assume(not name.startswith("database.ssl"))
    with pytest.raises(ValidationError, match="cannot be overridden"):
        CaptureSettings(url="http://connect", overrides={name: "other"})


def test_speed_tls_and_logins_can_be_overridden() -> None:
    wanted = [*TUNABLE, "database.sslcert", "producer.override.sasl.jaas.config", "admin.override.security.protocol"]
    assert CaptureSettings(url="http://connect", overrides=dict.fromkeys(wanted, "x")).overrides.keys() == {*wanted}


def test_a_setting_of_ours_is_named_instead() -> None:
    with pytest.raises(ValidationError, match=r"set connect\.source_host"):
        CaptureSettings(url="http://connect", overrides={"database.hostname": "other"})


def test_each_line_of_the_texts_is_one_column_whatever_characters_a_name_has() -> None:
    odd = {TableName("public", "a\tb\nc%09"): ["d\te"], TABLE: ["price", "tax"]}
    lines = properties(PLUGINS, texts=odd)["exact.texts"].split("\n")
    assert lines == ["public.a%09b%0ac%2509\td%09e", "public.orders\tprice", "public.orders\ttax"]

"""The labs about what is derived from a log: each shows the failure, and what helps."""

import pytest

from cdc.lab.derived import cqrs, unbundled
from cdc.lab.derived.replay import COUNTRIES, LAST_WEEK, TODAY
from cdc.lab.derived.shop import ITEMS, STOCK
from cdc.lab.temporary import open_admin
from cdc.log.settings import LogSettings
from tests.servers.lab.running import cell, watch
from tests.servers.latest.play import records
from tests.support.parts.servers_fixture import Servers

OFFSETS = "cdc-connect-offsets"
"""Where Kafka Connect keeps the offsets of its connectors."""


def test_a_new_view_mends_what_the_old_one_cannot_while_that_answers(servers: Servers) -> None:
    found = watch(servers, "replay")
    old, mended, new = (str(row[0]) for row in found.rows)
    assert cell(found, old, "countries wrong") == len(COUNTRIES)
    # the code is right, what it began with is not
    assert cell(found, mended, "countries wrong") == len(COUNTRIES)
    assert cell(found, mended, "events read") == TODAY
    assert cell(found, new, "countries wrong") == cell(found, new, "cents too much") == 0
    assert cell(found, new, "events read") == LAST_WEEK + TODAY
    assert cell(found, old, "questions answered") > 0
    assert cell(found, new, "questions answered") > 0
    assert found.sentence.endswith("0 questions got no whole answer.")


def test_one_validator_an_item_keeps_the_rule_and_events_say_why(servers: Servers) -> None:
    found = watch(servers, "event-sourcing")
    believed, by_cart, by_item, restored, undone, rows = (str(row[0]) for row in found.rows)
    beyond, taken = "sold beyond the stock", "taken out again, as told"
    assert cell(found, believed, beyond) > cell(found, by_cart, beyond) > 0
    assert cell(found, by_item, beyond) == 0
    # the same rule, by locks of rows
    assert cell(found, rows, beyond) == 0
    assert cell(found, rows, "commands refused") == cell(found, by_item, "commands refused") > 0
    assert cell(found, rows, "left") == cell(found, restored, "left") == cell(found, by_item, "left") <= ITEMS * STOCK
    assert 0 < cell(found, restored, "read") < cell(found, by_item, "read")
    assert cell(found, undone, "read") == cell(found, by_item, "read") + 1
    assert cell(found, undone, "left") == cell(found, by_item, "left") + 1
    assert 0 < cell(found, by_item, taken) < cell(found, rows, taken)


def test_who_asks_at_once_misses_the_own_write_and_who_waits_does_not(servers: Servers) -> None:
    found = watch(servers, "cqrs")
    for model in (str(row[0]) for row in found.rows):
        assert cell(found, model, "asked") == cqrs.ORDERS
        assert cqrs.HELD_UP <= cell(found, model, "missed at once") <= cqrs.ORDERS
        assert cell(found, model, "missed after the wait") == 0
    assert len({cell(found, str(row[0]), "revenue") for row in found.rows}) == 1


def test_at_one_position_all_stores_give_one_answer_and_without_they_differ(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_TEST_PASSWORD", servers.password)
    found = watch(servers, "unbundled")
    at_once, waited = unbundled.WHEN
    for compared in map(unbundled.name_comparison, unbundled.FOLLOWERS):
        assert 0 < cell(found, compared, at_once) <= unbundled.DAYS
        assert cell(found, compared, waited) == 0
        assert cell(found, compared, "ms waited, median") > 0
    at_cut = str(found.rows[-1][0])
    assert cell(found, at_cut, at_once) == cell(found, at_cut, waited) == 0
    with servers.connect() as connection:
        left = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lab%%'").fetchall()
    with open_admin(servers.values.bootstrap) as admin:
        assert ([topic for topic in admin.list_topics() if "lab_" in topic], left) == ([], [])
    # by our own reader: kafka-python has no lz4, which connectors of other tests write
    newest = {each.key: each.value for each in records(LogSettings(bootstrap=servers.values.bootstrap), OFFSETS)}
    # a key of the lab is there, with a tombstone
    assert {value for key, value in newest.items() if key and b"lab_" in key} == {None}

"""The labs about databases and their logs: each shows the failure, and what helps."""

from cdc.lab.capture.readers import WAYS
from cdc.lab.capture.snapshot import ACCOUNTS, MEANWHILE
from cdc.lab.capture.triggers import LATE
from tests.servers.lab.running import cell, watch
from tests.support.parts.servers_fixture import Servers


def test_two_stores_differ_for_ever_and_a_store_with_its_follower_does_not(servers: Servers) -> None:
    found = watch(servers, "dual-writes")
    raced, failed, through_log = (str(row[0]) for row in found.rows)
    # two of the six forced orders at least
    assert 2 <= cell(found, raced, "differ for ever") <= cell(found, raced, "keys")
    assert 0 < cell(found, failed, "differ for ever") == cell(found, failed, "keys")
    assert cell(found, through_log, "differ for ever") == 0
    assert cell(found, through_log, "keys") == cell(found, raced, "keys") + cell(found, failed, "keys")
    with servers.connect() as connection:
        left = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lab%%'").fetchall()
        slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'lab%%'").fetchall()
    assert (left, slots) == ([], [])


def test_polling_and_triggers_miss_what_commits_late_and_the_log_misses_nothing(servers: Servers) -> None:
    found = watch(servers, "triggers")
    nobody, polled, by_number, finished, logged = (way.name for way in WAYS)
    assert cell(found, nobody, "missed") == cell(found, nobody, "changes")
    for kind in ("versions", "deletes", "truncates"):
        assert 0 < cell(found, polled, kind) <= cell(found, nobody, kind)
    assert cell(found, polled, "deletes") == cell(found, nobody, "deletes")
    assert [cell(found, way, "late commits") for way in (polled, by_number, finished, logged)] == [LATE, LATE, 0, 0]
    assert [cell(found, by_number, kind) for kind in ("versions", "deletes", "truncates")] == [0, 0, 1]
    assert cell(found, finished, "missed") == cell(found, logged, "missed") == 0


def test_a_copy_without_its_position_loses_or_doubles(servers: Servers) -> None:
    found = watch(servers, "snapshot")
    behind, before, exported = (str(row[0]) for row in found.rows)
    assert cell(found, behind, "lost") >= MEANWHILE
    assert cell(found, behind, "doubled") == 0
    assert cell(found, before, "lost") == 0
    assert cell(found, before, "doubled") >= MEANWHILE
    # a half of a transfer is in the copy: the accounts are those of no moment
    assert cell(found, behind, "sum of all, 0 in the source") > 0
    for counted in ("lost", "doubled", f"of {ACCOUNTS} accounts wrong", "sum of all, 0 in the source"):
        assert cell(found, exported, counted) == 0
    assert cell(found, exported, "rows from the log") >= 2 * MEANWHILE

"""The labs about databases and their logs: each shows the failure, and what helps."""

from cdc.lab.capture.ledger import ACCOUNTS
from cdc.lab.capture.readers import WAYS
from cdc.lab.capture.snapshot import MEANWHILE
from cdc.lab.capture.triggers import LATE
from tests.servers.lab.running import watch
from tests.support.servers_fixture import Servers


def test_two_stores_differ_for_ever_and_a_store_with_its_follower_does_not(servers: Servers) -> None:
    found = watch(servers, "dual-writes")
    raced, failed, through_log = (str(row[0]) for row in found.rows)
    # two of the six forced orders at least
    assert 2 <= found.cell(raced, "differ for ever") <= found.cell(raced, "keys")
    assert 0 < found.cell(failed, "differ for ever") == found.cell(failed, "keys")
    assert found.cell(through_log, "differ for ever") == 0
    assert found.cell(through_log, "keys") == found.cell(raced, "keys") + found.cell(failed, "keys")
    with servers.connect() as connection:
        left = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'lab%%'").fetchall()
        slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'lab%%'").fetchall()
    assert (left, slots) == ([], [])


def test_polling_and_triggers_miss_what_commits_late_and_the_log_misses_nothing(servers: Servers) -> None:
    found = watch(servers, "triggers")
    nobody, polled, by_number, finished, logged = (way.name for way in WAYS)
    assert found.cell(nobody, "missed") == found.cell(nobody, "changes")
    for kind in ("versions", "deletes", "truncates"):
        assert 0 < found.cell(polled, kind) <= found.cell(nobody, kind)
    assert found.cell(polled, "deletes") == found.cell(nobody, "deletes")
    assert [found.cell(way, "late commits") for way in (polled, by_number, finished, logged)] == [LATE, LATE, 0, 0]
    assert [found.cell(by_number, kind) for kind in ("versions", "deletes", "truncates")] == [0, 0, 1]
    assert found.cell(finished, "missed") == found.cell(logged, "missed") == 0


def test_a_copy_without_its_position_loses_or_doubles(servers: Servers) -> None:
    found = watch(servers, "snapshot")
    behind, before, exported = (str(row[0]) for row in found.rows)
    assert found.cell(behind, "lost") >= MEANWHILE
    assert found.cell(behind, "doubled") == 0
    assert found.cell(before, "lost") == 0
    assert found.cell(before, "doubled") >= MEANWHILE
    # a half of a transfer is in the copy: the accounts are those of no moment
    assert found.cell(behind, "sum of all, 0 in the source") > 0
    for counted in ("lost", "doubled", f"of {ACCOUNTS} accounts wrong", "sum of all, 0 in the source"):
        assert found.cell(exported, counted) == 0
    assert found.cell(exported, "rows from the log") >= 2 * MEANWHILE

"""The labs about databases and their logs: each shows the failure, and what helps."""

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

"""The labs about faults and correctness: each shows the failure, and what helps. No number is known beforehand."""

from cdc.lab.correctness import audit, batch_job, claims, micro_batch, request_ids, state
from tests.servers.lab.running import watch
from tests.support.servers_fixture import Servers


def test_a_crash_between_effect_and_checkpoint_doubles_or_loses_unless_both_are_one_step(servers: Servers) -> None:
    found = watch(servers, "micro-batch")
    doubling, losing, together, idempotent = (str(row[0]) for row in found.rows)
    hurt = (micro_batch.KILLS - 1) * batch_job.BATCH
    assert {row[1] for row in found.rows} == {micro_batch.KILLS}
    assert (found.cell(doubling, "twice"), found.cell(doubling, "never")) == (hurt, 0)
    assert (found.cell(losing, "twice"), found.cell(losing, "never")) == (0, hurt)
    for way in (together, idempotent):
        # the batches came again, and did nothing twice
        assert found.cell(way, "processed, some again") == batch_job.EVENTS + hurt
        assert found.cell(way, "effect once") == batch_job.EVENTS


def test_lost_counts_come_back_from_a_changelog_a_checkpoint_or_the_log(servers: Servers) -> None:
    found = watch(servers, "state")
    changelog, checkpoint, log, nothing = (str(row[0]) for row in found.rows)
    wrong, read = "counts wrong in the end", "messages read"
    assert found.cell(nothing, wrong) == state.KEYS
    assert [found.cell(way, wrong) for way in (changelog, checkpoint, log)] == [0, 0, 0]
    assert found.cell(changelog, read) == state.KEYS
    assert state.KEYS < found.cell(checkpoint, read) < found.cell(log, read) < state.EVENTS


def test_who_asks_again_pays_twice_unless_an_id_goes_through_all_hops(servers: Servers) -> None:
    found = watch(servers, "request-ids")
    once, direct, hops, with_id = (str(row[0]) for row in found.rows)
    wanted = request_ids.CLIENTS * request_ids.ORDERS
    # not to ask again is no way out: the lost request is not known from the lost answer
    assert (found.cell(once, "twice"), found.cell(once, "never")) == (0, request_ids.CLIENTS)
    for way in (direct, hops):
        # on a busy machine some more may be too slow
        assert found.cell(way, "twice") >= request_ids.CLIENTS
        assert found.cell(way, "never") == 0
    assert found.cell(with_id, "asked again") >= 2 * request_ids.CLIENTS
    assert found.cell(with_id, "paid once") == found.cell(with_id, "payments") == wanted


def test_a_name_has_one_owner_where_its_claims_have_one_order(servers: Servers) -> None:
    found = watch(servers, "claims")
    alone, alike, by_name, in_turn = (str(row[0]) for row in found.rows)
    for way in (alone, alike, by_name):
        assert found.cell(way, "names with one owner") == len(claims.NAMES)
        assert found.cell(way, "with two") == found.cell(way, "clients told yes and no") == 0
    assert found.cell(in_turn, "with two") > 0
    assert found.cell(in_turn, "clients told yes and no") > 0


def test_money_is_lost_or_made_between_two_postings_and_not_through_the_log(servers: Servers) -> None:
    found = watch(servers, "transfer")
    losing, making, logged = (str(row[0]) for row in found.rows)
    before = found.cell(logged, "sum before")
    assert found.cell(losing, "sum after") < before < found.cell(making, "sum after")
    assert found.cell(losing, "accounts wrong") > 0
    assert found.cell(making, "accounts wrong") > 0
    assert found.cell(logged, "killed") > found.cell(losing, "killed") == found.cell(making, "killed") > 0
    assert found.cell(logged, "sum after") == before
    assert found.cell(logged, "accounts wrong") == 0
    # the derivation repeated one posting and then two, each partition one
    assert found.cell(logged, "stopped by id") == 5


def test_a_late_copy_is_true_and_a_changed_past_is_found_by_the_chain_only(servers: Servers) -> None:
    found = watch(servers, "audit")
    late, quick, history, swapped, anew = (str(row[0]) for row in found.rows)
    assert found.cell(late, "postings behind") > found.cell(quick, "postings behind")
    assert found.cell(late, "never true") == found.cell(history, "never true") == 0
    assert found.cell(quick, "never true") == audit.TRANSFERS
    assert found.cell(swapped, "never true") == found.cell(anew, "never true") > 0
    # what one would look at first sees nothing
    assert {row[4] for row in found.rows} == {"right"}
    assert found.cell(history, "its chain") == "fits"
    assert found.cell(swapped, "its chain").startswith("breaks at batch")
    assert found.cell(anew, "its chain").startswith("fits, with another end")

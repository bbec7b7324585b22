"""The labs about faults and correctness: each shows the failure, and what helps. No number is known beforehand."""

from cdc.lab.correctness import audit, claims, micro_batch, request_ids, state
from tests.servers.lab.running import cell, watch
from tests.support.parts.servers_fixture import Servers


def test_a_crash_between_effect_and_checkpoint_doubles_or_loses_unless_both_are_one_step(servers: Servers) -> None:
    found = watch(servers, "micro-batch")
    doubling, losing, together, idempotent = (str(row[0]) for row in found.rows)
    hurt = (micro_batch.KILLS - 1) * micro_batch.BATCH
    assert {row[1] for row in found.rows} == {micro_batch.KILLS}
    assert (cell(found, doubling, "twice"), cell(found, doubling, "never")) == (hurt, 0)
    assert (cell(found, losing, "twice"), cell(found, losing, "never")) == (0, hurt)
    for way in (together, idempotent):
        # the batches came again, and did nothing twice
        assert cell(found, way, "processed, some again") == micro_batch.EVENTS + hurt
        assert cell(found, way, "effect once") == micro_batch.EVENTS


def test_lost_counts_come_back_from_a_changelog_a_checkpoint_or_the_log(servers: Servers) -> None:
    found = watch(servers, "state")
    changelog, checkpoint, log, nothing = (str(row[0]) for row in found.rows)
    wrong, read = "counts wrong in the end", "messages read"
    assert cell(found, nothing, wrong) == state.KEYS
    assert [cell(found, way, wrong) for way in (changelog, checkpoint, log)] == [0, 0, 0]
    assert cell(found, changelog, read) == state.KEYS
    assert state.KEYS < cell(found, checkpoint, read) < cell(found, log, read) < state.EVENTS


def test_who_asks_again_pays_twice_unless_an_id_goes_through_all_hops(servers: Servers) -> None:
    found = watch(servers, "request-ids")
    once, direct, hops, with_id = (str(row[0]) for row in found.rows)
    wanted = request_ids.CLIENTS * request_ids.ORDERS
    # not to ask again is no way out: the lost request is not known from the lost answer
    assert (cell(found, once, "twice"), cell(found, once, "never")) == (0, request_ids.CLIENTS)
    for way in (direct, hops):
        # on a busy machine some more may be too slow
        assert cell(found, way, "twice") >= request_ids.CLIENTS
        assert cell(found, way, "never") == 0
    assert cell(found, with_id, "asked again") >= 2 * request_ids.CLIENTS
    assert cell(found, with_id, "paid once") == cell(found, with_id, "payments") == wanted


def test_a_name_has_one_owner_where_its_claims_have_one_order(servers: Servers) -> None:
    found = watch(servers, "claims")
    alone, alike, by_name, in_turn = (str(row[0]) for row in found.rows)
    for way in (alone, alike, by_name):
        assert cell(found, way, "names with one owner") == len(claims.NAMES)
        assert cell(found, way, "with two") == cell(found, way, "clients told yes and no") == 0
    assert cell(found, in_turn, "with two") > 0
    assert cell(found, in_turn, "clients told yes and no") > 0


def test_money_is_lost_or_made_between_two_postings_and_not_through_the_log(servers: Servers) -> None:
    found = watch(servers, "transfer")
    losing, making, logged = (str(row[0]) for row in found.rows)
    before = cell(found, logged, "sum before")
    assert cell(found, losing, "sum after") < before < cell(found, making, "sum after")
    assert cell(found, losing, "accounts wrong") > 0
    assert cell(found, making, "accounts wrong") > 0
    assert cell(found, logged, "killed") > cell(found, losing, "killed") == cell(found, making, "killed") > 0
    assert cell(found, logged, "sum after") == before
    assert cell(found, logged, "accounts wrong") == 0
    # the derivation repeated one posting and then two, each partition one
    assert cell(found, logged, "stopped by id") == 5


def test_a_late_copy_is_true_and_a_changed_past_is_found_by_the_chain_only(servers: Servers) -> None:
    found = watch(servers, "audit")
    late, quick, history, swapped, anew = (str(row[0]) for row in found.rows)
    assert cell(found, late, "postings behind") > cell(found, quick, "postings behind")
    assert cell(found, late, "never true") == cell(found, history, "never true") == 0
    assert cell(found, quick, "never true") == audit.TRANSFERS
    assert cell(found, swapped, "never true") == cell(found, anew, "never true") > 0
    # what one would look at first sees nothing
    assert {row[4] for row in found.rows} == {"right"}
    assert cell(found, history, "its chain") == "fits"
    assert cell(found, swapped, "its chain").startswith("breaks at batch")
    assert cell(found, anew, "its chain").startswith("fits, with another end")

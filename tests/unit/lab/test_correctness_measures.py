"""What the labs about correctness count, on values: an idea that were false would be counted so."""

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdc.lab.correctness import audit, claims, micro_batch, request_ids, transfer
from cdc.lab.correctness.audit import WatchedCopy
from cdc.lab.correctness.bank import ACCOUNTS, BEGINNING, Posting, plan_transfers, post_all
from cdc.lab.correctness.claims import Answer
from cdc.lab.correctness.hops import Loss, Sighting
from cdc.lab.correctness.micro_batch import BATCH, BATCHES, EVENTS, JobRun
from cdc.lab.correctness.request_ids import PaymentRun
from cdc.lab.correctness.state import Count, Counts, count_further, parse_changelog
from cdc.lab.lives import LifeReport, plan_deaths
from cdc.lab.messages import Message

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_deaths_are_planned_in_the_order_of_their_places_and_of_every_kind(seed: int) -> None:
    deaths = plan_deaths(Random(seed), "batch", micro_batch.KINDS, range(1, BATCHES - 1))
    batches = [int(death.split()[1].rstrip(",")) for death in deaths]
    assert batches == sorted(set(batches))
    assert set(batches) <= set(range(1, BATCHES - 1))
    assert sorted(death.split(", ")[1] for death in deaths) == sorted(micro_batch.KINDS)


def test_effects_are_counted_by_how_often_they_are_there() -> None:
    reports = [
        LifeReport("job", 0, {"batch": 0}),
        LifeReport("job", 0, {"died": 9}),
        LifeReport("job", 1, {"batch": 0}),
    ]
    once = [(event, 0) for event in range(EVENTS)]
    assert JobRun(reports, once).row == (1, 2 * BATCH, EVENTS, 0, 0)
    assert JobRun(reports, [*once, (0, 1)]).row == (1, 2 * BATCH, EVENTS - 1, 1, 0)
    assert JobRun(reports, once[3:]).row == (1, 2 * BATCH, EVENTS - 3, 0, 3)


@given(st.lists(st.sampled_from("abc"), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_counts_of_different_positions_come_out_right_from_the_lower_one(keys: list[str], low: int, high: int) -> None:
    events = [Message(0, offset, key, None) for offset, key in enumerate(keys)]
    truth, early, late = Counts(), Counts(), Counts()
    count_further(truth, events)
    count_further(early, events[: min(low, high)])
    count_further(late, events[: max(low, high)])
    # as in a changelog that has some keys of a batch, and not yet the others
    mixed = {key: (late if key == "a" else early)[key] for key in late if key == "a" or key in early}
    count_further(mixed, events[min(low, high) :])
    assert mixed == truth


def test_a_changelog_has_the_newest_count_of_each_key() -> None:
    messages = [Message(0, 0, "a", "[1, 1]"), Message(0, 1, "b", "[3, 9]"), Message(0, 2, "a", "[2, 7]")]
    assert parse_changelog(messages) == {"a": Count(2, 7), "b": Count(3, 9)}


@given(SEEDS)
def test_of_each_client_a_request_is_lost_and_an_answer_and_every_request_has_its_id(seed: int) -> None:
    plan = request_ids.plan_wishes(Random(seed))
    assert plan == request_ids.plan_wishes(Random(seed))
    for wishes in plan:
        assert Counter(loss for _, loss in wishes if loss) == dict.fromkeys(Loss, 1)
    payments = [payment for wishes in plan for payment, _ in wishes]
    assert len({payment.request_id for payment in payments}) == len({p.order for p in payments}) == len(payments)


def test_payments_are_counted_by_how_often_they_were_asked_for_and_paid() -> None:
    asks, silence = [("client", n, "asks") for n in (1, 2, 2, 3)], [("client", n, "hears nothing") for n in (2, 3)]
    seen = [Sighting(place, order, 0.0, what) for place, order, what in [*asks, *silence, ("service", 1, "")]]
    # wanted, unanswered, asked again; paid once, twice, never
    assert PaymentRun(Counter({1: 1, 2: 2}), seen).row == (3, 2, 1, 1, 1, 1)


@given(SEEDS)
def test_every_name_is_wanted_and_in_turn_its_first_two_claims_lie_in_two_logs(seed: int) -> None:
    plan = claims.plan_claims(Random(seed))
    assert {claim.name for claim in plan} == set(claims.NAMES)
    assert {claim.client for claim in plan} == set(range(claims.CLIENTS))
    assert plan[0].name == plan[1].name
    # the second one asks again in the log in which it comes too late
    in_turn = claims.LAYOUTS["two logs, round-robin, a decider each"]
    assert plan[claims.CLIENTS] == plan[1]
    assert (
        in_turn.choose_log(claims.CLIENTS, plan[1]) == in_turn.choose_log(0, plan[0]) != in_turn.choose_log(1, plan[1])
    )


def test_owners_are_counted_by_name_and_a_client_may_hear_both() -> None:
    told = [(1, "a", True), (2, "a", False), (1, "a", True), (2, "b", True), (3, "b", True), (3, "b", False)]
    answers = [Answer(client, name, granted, 0, 0) for client, name, granted in told]
    # one owner, two owners, yes and no
    assert claims.count_owners(answers) == (1, 1, 1)


def plan_postings(seed: int) -> list[Posting]:
    transfers = plan_transfers(Random(seed), audit.TRANSFERS)
    return [posting for each in transfers for posting in each.sides]


@given(SEEDS)
def test_a_transfer_concerns_both_partitions_and_keeps_the_sum(seed: int) -> None:
    transfers = plan_transfers(Random(seed), transfer.REQUESTS)
    assert all(len({posting.partition for posting in each.sides}) == 2 for each in transfers)
    for end in range(len(transfers)):
        whole = [posting for each in transfers[:end] for posting in each.sides]
        assert sum(post_all(whole).values()) == len(ACCOUNTS) * BEGINNING
        assert sum(post_all([*whole, transfers[end].sides[0]]).values()) < len(ACCOUNTS) * BEGINNING


@given(SEEDS)
def test_every_process_of_a_transfer_is_killed_halfway_and_behind_both(seed: int) -> None:
    for points in transfer.plan_kills(Random(seed)):
        places = [int(point.split()[1].rstrip(",")) for point in points]
        assert places == sorted(set(places))
        assert {point.split(", ")[1] for point in points} == {"halfway", "done"}


@given(SEEDS)
def test_swapped_amounts_change_past_balances_and_not_the_last(seed: int) -> None:
    postings = plan_postings(seed)
    one, other = audit.plan_swap(Random(seed), postings)
    changed = list(postings)
    changed[one - 1] = replace(postings[one - 1], amount=postings[other - 1].amount)
    changed[other - 1] = replace(postings[other - 1], amount=postings[one - 1].amount)
    assert post_all(changed) == post_all(postings)
    states = audit.replay(postings)
    assert False in WatchedCopy(audit.replay(changed), 0).judge(states)
    assert WatchedCopy(states[:3], 9).judge(states) == [True] * 3

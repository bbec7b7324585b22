"""What the labs about correctness count, on values: an idea that were false would be counted so."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lab.correctness import micro_batch
from lab.correctness.batch_job import BATCH, BATCHES, EVENTS
from lab.correctness.lives import LifeReport
from lab.correctness.micro_batch import JobRun

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_a_job_is_killed_in_the_order_of_its_batches_and_once_behind_both_steps(seed: int) -> None:
    deaths = micro_batch.plan_deaths(Random(seed))
    batches = [int(death.split()[1].rstrip(",")) for death in deaths]
    assert batches == sorted(set(batches))
    assert set(batches) <= set(range(1, BATCHES - 1))
    assert [death.endswith("done") for death in deaths].count(True) == 1
    assert len(deaths) == micro_batch.KILLS


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

"""The labs about faults and correctness: each shows the failure, and what helps. No number is known beforehand."""

from lab.correctness import batch_job, micro_batch
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
        assert found.cell(way, "events taken") == batch_job.EVENTS + hurt
        assert found.cell(way, "effect once") == batch_job.EVENTS

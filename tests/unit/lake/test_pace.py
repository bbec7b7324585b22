"""How often the lake commits, by what a commit costs, within the freshness that the user names."""

from hypothesis import given
from hypothesis import strategies as st

from cdc.sinks.lake.pace import (
    FREE_BYTES_A_SECOND,
    OVERHEAD_RATIO,
    STORE_REST_SECONDS,
    CommitCost,
    Pace,
    PaceLimits,
    commit_interval,
)
from cdc.sinks.lake.settings import DeltaSettings

FOLDER, STORE = PaceLimits.of_folder(None), PaceLimits.of_object_store(None)
VECTOR, ROW = 131_072, 79


def cost(rows: int, beside: int = VECTOR, files: int = 5) -> CommitCost:
    return CommitCost(rows * ROW, beside, files)


def test_few_changes_are_committed_at_once_whatever_that_costs() -> None:
    assert commit_interval(cost(1), 1, 1.0, FOLDER) == 0
    assert commit_interval(cost(1), 1, float("inf"), FOLDER) == 0


def test_a_large_vector_waits_for_more_rows() -> None:
    """500 updates a second in a million rows: 130 KB for 100 rows of 0.2 s, then for 750."""
    assert commit_interval(cost(100), 100, 0.2, FOLDER) == FOLDER.freshness
    assert commit_interval(cost(100, beside=8_000), 100, 0.2, FOLDER) < 0.2


def test_a_backlog_does_not_wait() -> None:
    assert commit_interval(cost(200_000), 200_000, 2.0, FOLDER) < 0.02


def test_on_an_object_store_requests_count_however_few_rows_there_are() -> None:
    assert 3 < commit_interval(cost(1, beside=4_000), 1, 1.0, STORE) <= STORE.freshness
    assert commit_interval(cost(1, beside=4_000), 1, 1.0, PaceLimits.of_object_store(0)) == 0


@given(st.integers(1, 10_000), st.integers(1, 10**6), st.floats(0.01, 100), st.floats(0, 60))
def test_what_is_written_beside_the_rows_is_bounded_by_them_or_by_freshness(
    rows: int, beside: int, seconds: float, freshness: float
) -> None:
    found = commit_interval(cost(rows, beside), rows, seconds, PaceLimits.of_folder(freshness))
    assert 0 <= found <= freshness
    if found < freshness and rows / seconds * freshness > 5:
        assert beside / found <= 1.001 * max(FREE_BYTES_A_SECOND, OVERHEAD_RATIO * rows * ROW / seconds)


def test_the_freshness_is_the_users() -> None:
    assert DeltaSettings(kind="delta", path="lake").pace_limits == PaceLimits(1.5)
    assert DeltaSettings(kind="delta", path="lake", freshness_seconds=0).pace_limits.freshness == 0
    assert DeltaSettings(kind="delta", path="s3://bucket/lake").pace_limits.freshness == 6.5


def test_the_next_batch_is_due_so_long_after_the_last_began() -> None:
    now = [100.0]
    pace = Pace(FOLDER, lambda: now[0])
    assert pace.remaining() == 0
    pace.begin()
    pace.note_commit(cost(100), 100)
    assert pace.remaining() == 0
    now[0] += 0.2
    pace.begin()
    now[0] += 0.1
    pace.note_commit(cost(100), 100)
    assert abs(pace.remaining() - 1.4) < 1e-9
    now[0] += 2
    assert pace.remaining() == 0


def test_heartbeats_alone_wait_on_an_object_store_and_never_for_the_first_commit() -> None:
    now = [100.0]
    pace, in_folder = (Pace(limits, lambda: now[0]) for limits in (PaceLimits.of_object_store(0), FOLDER))
    assert not pace.may_rest()
    pace.note_commit(cost(0), 1)
    in_folder.note_commit(cost(0), 1)
    assert (pace.may_rest(), in_folder.may_rest()) == (True, False)
    # whoever waits for the next one does not wait for a commit that there was none of
    paced = Pace(PaceLimits.of_object_store(None), lambda: now[0])
    paced.begin()
    paced.note_commit(cost(1), 1)
    assert paced.remaining() > 0
    paced.begin()
    paced.note_rest()
    assert paced.remaining() == 0
    now[0] += STORE_REST_SECONDS
    assert not pace.may_rest()

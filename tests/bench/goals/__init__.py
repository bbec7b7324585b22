"""Every goal by its name, in the order of the table that they come from."""

from collections.abc import Mapping

from tests.bench.goal import Goal
from tests.bench.goals import (
    backlog,
    commands,
    filling,
    growth,
    idle,
    keys,
    lag,
    repair,
    requests,
    search_lag,
    slot,
    snapshot,
    start,
    tables,
    upkeep,
)
from tests.bench.goals import verify as verifying
from tests.bench.goals.derived import (
    history,
    matching,
    view_document,
    view_fill,
    view_fill_many,
    view_idle,
    view_keys,
    view_lag,
    view_timeline,
)

GOALS: Mapping[str, Goal] = {
    goal.name: goal
    for goal in (
        lag.ONE_A_SECOND,
        lag.A_THOUSAND_A_SECOND,
        search_lag.SEARCHABLE,
        backlog.SINGLE_ROWS,
        backlog.LARGE_TRANSACTIONS,
        backlog.FLAT_MEMORY,
        keys.RANDOM_KEYS,
        tables.MANY_TABLES,
        tables.IDLE_TABLES,
        upkeep.AFTER_BATCHES,
        growth.BYTES,
        growth.MEMORY_OF_ONE,
        growth.MEMORY_OF_TWENTY,
        growth.ON_OBJECT_STORE,
        requests.GOAL,
        start.QUIET,
        start.BUSY,
        idle.ONE_PIPELINE,
        idle.FOUR_PIPELINES,
        snapshot.COPY,
        filling.FILLING,
        verifying.VERIFY,
        repair.REPAIR,
        slot.SLOT,
        view_lag.VIEW_LAG,
        view_keys.VIEW_KEYS,
        view_timeline.VIEW_TIMELINE,
        view_document.VIEW_DOCUMENT,
        view_fill.VIEW_FILL,
        view_fill_many.VIEW_FILL_MANY,
        view_idle.VIEW_IDLE,
        history.HISTORY,
        matching.MATCHING,
        commands.DEMO,
        commands.CHECKS,
    )
}

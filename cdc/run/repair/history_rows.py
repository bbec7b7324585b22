"""Repairs histories: one whose newest versions are not the rows of its table goes on with these, as after a copy.

No version that is there is changed: what was wrong stays in the past, as that has been read already.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cdc.core.errors import CdcError
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.repair.report import TableRepair
from cdc.run.repair.streams import Say, Streams
from cdc.run.repair_requests import TABLE, RepairRequest
from cdc.run.verify.history_comparison import compare_histories
from cdc.run.verify.report import Verdict


@dataclass(frozen=True, slots=True)
class HistoryRepairs:
    """The histories, by the names of their epochs; `failed`: those that could not be compared or repaired."""

    done: dict[TableName, TableRepair]
    failed: dict[TableName, CdcError] = field(default_factory=dict)


def repair_histories(
    pipeline: Pipeline, streams: Streams, names: Sequence[TableName], say: Say, wait: Callable[[int], None]
) -> HistoryRepairs:
    """Compare the histories of these tables, and repair those that differ; `wait` returns once a cut is everywhere.

    It costs each of these tables, not the keys: a copy of all rows is taken, and a copy of some would be no copy.
    """
    found = compare_histories(pipeline, 0, names)
    wrong = {history: verdict for history, verdict in found.items() if _count(verdict)}
    failed = dict[TableName, CdcError]()
    if wrong:
        tables = [verdict.history_of for verdict in wrong.values() if verdict.history_of]
        say(f"repairing histories: {', '.join(map(str, wrong))}")
        answers = streams.put_right([RepairRequest.of_history(name) for name in tables], TABLE)
        failed |= {each: a.refusal for each, a in zip(wrong, answers, strict=True) if a.refusal}
        wait(max(answer.offset for answer in answers))
        found = {**found, **compare_histories(pipeline, 0, tables)}
    failed |= {history: verdict.stopped for history, verdict in found.items() if verdict.stopped}
    done = {
        history: TableRepair(
            _count(wrong.get(history)),
            int(history in wrong),
            {pipeline.lake_name: left} if (left := _count(verdict)) else {},
            is_history=True,
        )
        for history, verdict in found.items()
        if history not in failed
    }
    return HistoryRepairs(done, failed)


def _count(verdict: Verdict | None) -> int:
    """How many keys differ."""
    return verdict.comparison.different if verdict and verdict.comparison else 0

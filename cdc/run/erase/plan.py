"""What an erasure will do and cost, in words, before it does anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc.core.table import TableName
from cdc.core.text.plural import format_bytes, format_count
from cdc.run.erase.lake_steps import list_held
from cdc.run.erase.log_steps import LogErasure
from cdc.run.erase.report import OUT_OF_REACH
from cdc.run.erase.target import ErasureTarget
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.layout import open_table
from cdc.sinks.opensearch.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """`happens`, `costs`, `stays`: sentences."""

    happens: Sequence[str]
    costs: Sequence[str]
    stays: Sequence[str]

    @property
    def lines(self) -> list[str]:
        return [
            *(f"- {line}" for line in self.happens),
            *(f"it costs: {line}" for line in self.costs),
            *(f"out of reach: {line}" for line in self.stays),
        ]

    def as_json(self) -> dict[str, Any]:
        return {"happens": [*self.happens], "costs": [*self.costs], "out_of_reach": [*self.stays]}


def make_plan(
    pipeline: Pipeline, target: ErasureTarget, erasure: LogErasure, *, has_row: bool, finished: int
) -> ErasurePlan:
    """`has_row`: the source still has it; `finished`: steps of this erasure that an earlier run has done."""
    tables = [each.name for each in list_held(pipeline, target)]
    held = [*map(str, tables)]
    clusters = [name for name, kind in pipeline.settings.followers.items() if isinstance(kind, ClusterSettings)]
    cut = ", ".join(erasure.list_cut_off())
    happens = [
        f"go on after {format_count(finished, 'step')} that an earlier run has done" if finished else "",
        f"search for the row's values in lake, topics, indexes and {pipeline.state}",
        f"delete the row of {target.table.name} in the source" if has_row else "",
        f"bring all followers on in this process: {', '.join(pipeline.settings.stream_names)}",
        "drop its dead letters",
        f"delete its rows and past in the lake: {', '.join(held)}",
        f"cut off {cut}, and compact {', '.join(erasure.list_compacted()) or 'no topic'}",
        f"merge deleted documents away in the indexes of {', '.join(clusters)}" if clusters else "",
        "delete key indexes and row copies of this machine, clean logs and the page's past",
        "search again, and sign a report",
    ]
    return ErasurePlan([each for each in happens if each], _list_costs(pipeline, tables, cut), OUT_OF_REACH)


def _list_costs(pipeline: Pipeline, tables: Sequence[TableName], cut: str) -> list[str]:
    (size, files), held = _measure(pipeline, tables), [*map(str, tables)]
    return [
        f"no other `cdc follow` may run meanwhile; the source keeps WAL for the slot {pipeline.settings.source.slot}",
        f"readers at older versions of {', '.join(held)} lose them; so do `cdc.read(at=…)` and time travel",
        f"{cut} begin behind the row: new consumers do not get what came before",
        "tombstones of compacted topics go at once; a reader that holds rows, without a consumer group, keeps this one",
        f"reads {format_count(files, 'file')}, {format_bytes(size)}, of these tables",
        "reads all else that is searched twice, and the row's topics six times",
        "the next `cdc follow` reads the keys of all tables again",
    ]


def _measure(pipeline: Pipeline, tables: Sequence[TableName]) -> tuple[int, int]:
    opened = [open_table(pipeline.lake, name) for name in tables]
    files = [file for each in opened if each for file in each[0].snapshot.files.values()]
    return sum(file.size for file in files), len(files)

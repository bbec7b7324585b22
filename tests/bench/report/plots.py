"""The plots of one goal: values pair by pair with the limit, samples over time, CPU and memory by part."""

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tests.bench.arithmetic import ratios, thinned
from tests.bench.goal import Measure
from tests.bench.record import Record, Run
from tests.bench.report import numbers
from tests.bench.report.figure import FAINT, INK, LIMIT_COLOUR, ROLES, colours, drawing

WIDE, NARROW = 7.4, 5.4
TITLE_WIDTH = 58
"""Characters of a title and of the names on the left that fit beside the limit."""

DASHED = (0, (4, 2))
MOST_POINTS = 1500
"""Points of a run in a plot over time: each is an element of the page."""


def pairs_plot(record: Record, measure: Measure, limit: float | None) -> str:
    """Every value of a measure by side, a dot a pair, the median marked; the limit as a line."""
    rows = [(side, list(record.values(side, measure.name).values())) for side in record.sides]
    rows = [(side, values) for side, values in rows if values]
    if not rows:
        return ""
    return _dots(numbers.with_unit(measure), rows, limit, colours(record.sides))


def ratio_plot(record: Record, measure: Measure, limit: float | None) -> str:
    """One side by another, a dot a pair; the limit as a line."""
    rows = []
    for side, per in record.divided:
        values = ratios(record.values(side, measure.name), record.values(per, measure.name))
        if values:
            rows.append((f"{side} / {per}", list(values.values())))
    if not rows:
        return ""
    return _dots(f"{measure.title}: ratios, pair by pair", rows, limit, dict.fromkeys((n for n, _ in rows), INK), 1.0)


def _dots(
    title: str,
    rows: Sequence[tuple[str, Sequence[float]]],
    limit: float | None,
    colour: Mapping[str, str],
    even: float | None = None,
) -> str:
    with drawing(NARROW, 0.85 + 0.42 * len(rows)) as (axes, drawn):
        for place, (name, values) in enumerate(rows):
            axes.plot(values, [place] * len(values), "o", color=colour[name], alpha=0.55, markersize=7, mew=0)
            middle = median(values)
            axes.plot([middle, middle], [place - 0.28, place + 0.28], color=colour[name], linewidth=2.5)
        if even is not None:
            axes.axvline(even, color=FAINT, linewidth=1.2)
        if limit is not None:
            _limit_line(axes, limit)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(lambda value, _: numbers.plain(value))
        axes.set_title("\n".join(textwrap.wrap(title, TITLE_WIDTH - max(len(name) for name, _ in rows))))
    return drawn.svg


def _limit_line(axes: Axes, limit: float) -> None:
    axes.axvline(limit, color=LIMIT_COLOUR, linestyle=DASHED, linewidth=1.4)
    _name_limit(axes, limit)


def _name_limit(axes: Axes, limit: float) -> None:
    axes.set_title(f"limit {numbers.plain(limit)}", loc="right", color=LIMIT_COLOUR, fontsize=8.5, fontweight="normal")


def samples_plot(record: Record, name: str, limit: float | None) -> str:
    """A sampled measure over time, of each side's last run that counts."""
    last = [(side, runs[-1]) for side in record.sides if (runs := _sampled(record, side, name))]
    if not last:
        return ""
    with drawing(WIDE, 2.7) as (axes, drawn):
        for side, run in last:
            points = thinned(sorted(run.samples[name]), MOST_POINTS)
            began = points[0][0]
            colour = colours(record.sides)[side]
            style = "o" if len(points) > 40 else "o-"
            axes.plot(
                [at - began for at, _ in points],
                [value for _, value in points],
                style,
                color=colour,
                markersize=2.4 if len(points) > 200 else 4,
                mew=0,
                linewidth=0.8,
                alpha=0.6,
                label=side,
            )
        if limit is not None:
            axes.axhline(limit, color=LIMIT_COLOUR, linestyle=DASHED, linewidth=1.4)
            _name_limit(axes, limit)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds from the first" if _by_clock(last[0][1], name) else "batch")
        axes.set_title(f"{_title(record, name)} over time, the last run of each side")
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        for handle in legend.legend_handles:
            if isinstance(handle, Line2D):
                handle.set(markersize=6, alpha=1)
    return drawn.svg


def usage_plot(record: Record, *, memory: bool) -> str:
    """CPU seconds, or peak memory, by part of the work: the median run of each side by its sum."""
    bars = [(side, _middle_run(record.runs_of(side), memory)) for side in record.sides]
    rows = [(side, found) for side, found in bars if found]
    if not rows:
        return ""
    with drawing(NARROW, 1.0 + 0.42 * len(rows)) as (axes, drawn):
        for role, colour in ROLES.items():
            _stack(axes, rows, role, colour)
        axes.set_yticks(range(len(rows)), [side for side, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_title("peak memory, PSS, MiB" if memory else "CPU seconds")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1.05), fontsize=8, handlelength=1, labelspacing=0.25)
    return drawn.svg


def _stack(axes: Axes, rows: Sequence[tuple[str, Mapping[str, float]]], role: str, colour: str) -> None:
    widths = [found.get(role, 0.0) for _, found in rows]
    if not any(widths):
        return
    before = list(ROLES)[: list(ROLES).index(role)]
    lefts = [sum(found.get(each, 0.0) for each in before) for _, found in rows]
    axes.barh(range(len(rows)), widths, left=lefts, height=0.55, color=colour, label=role)


def _middle_run(runs: Sequence[Run], memory: bool) -> dict[str, float]:
    """By part, of the run that is in the middle by its sum; the bench's own memory left out."""
    kept = [run.usage for run in runs if run.usage]
    if memory:
        found = [{role: size / 2**20 for role, size in usage.peak.items() if role != "bench"} for usage in kept]
    else:
        found = [dict(usage.cpu) for usage in kept]
    ordered = sorted(found, key=lambda each: sum(each.values()))
    return ordered[len(ordered) // 2] if ordered else {}


def _sampled(record: Record, side: str, name: str) -> list[Run]:
    return [run for run in record.runs_of(side) if len(run.samples.get(name, ())) > 1]


def _by_clock(run: Run, name: str) -> bool:
    return run.samples[name][0][0] > 1e6


def _title(record: Record, name: str) -> str:
    found = next((measure.title for measure in record.measures if measure.name == name), name)
    return {"p50": "latency, s", "lake": "latency in the lake, s"}.get(found, found)

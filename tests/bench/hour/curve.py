"""The hour as one picture: rate, memory, files and lag over time, with every kill."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes

from tests.bench.hour.faults import FOLLOW
from tests.bench.hour.samples import Sample
from tests.bench.hour.verdict import MOST_PYTHON
from tests.bench.report.figure import LIMIT_COLOUR, ROLES, draw_rows

WIDE, HIGH = 10.0, 11.0
MOST_POINTS: Final = 150
"""Of a line: a picture that pages show is small."""
COLOURS: Final = ("#1d5fd1", "#d9742b", "#3d8f6f", "#8a5fb0", "#6b7a89", "#f0b429")


def draw(samples: Sequence[Sample], kills: Sequence[dict[str, Any]], title: str, file: Path) -> None:
    """Write the picture as PNG, and as SVG beside it."""
    samples = samples[:: -(-len(samples) // MOST_POINTS)]
    with draw_rows(WIDE, HIGH, 5, file) as (rate, memory, files, sizes, lag):
        rate.set_title(f"{title}: transactions a second")
        _line(rate, _rates(samples), "reached", COLOURS[0])
        memory.set_title("memory of cdc follow, MiB")
        for number, (name, label) in enumerate(
            (("held", "Python, held"), ("python", "Python"), ("pythons", "all Pythons"), ("java", "Java"))
        ):
            _line(memory, _values(samples, name), label, COLOURS[number])
        memory.axhline(MOST_PYTHON, color=LIMIT_COLOUR, linestyle="--", linewidth=1)
        files.set_title("files of the lake")
        _line(files, _values(samples, "files"), "on disk", COLOURS[0])
        _line(files, _values(samples, "live_files"), "live", COLOURS[1])
        sizes.set_title("MiB on disk")
        _line(sizes, _values(samples, "mib"), "lake", COLOURS[0])
        _line(sizes, _values(samples, "index_mib"), "key indexes", COLOURS[1])
        lag.set_title("lag, s")
        _line(lag, _values(samples, "lake_lag"), "lake, by its cuts", COLOURS[0])
        names = sorted({name for sample in samples for name in sample.get("lags", {})} - {"lake"})
        for number, name in enumerate(names):
            found = [(sample["at"] / 60, sample["lags"][name]) for sample in samples if name in sample.get("lags", {})]
            _line(lag, found, name, COLOURS[1 + number % 5])
        lag.set_xlabel("minutes")
        for axes in (rate, memory, files, sizes, lag):
            _mark(axes, kills)
            axes.set_ylim(bottom=0)
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)


def _mark(axes: Axes, kills: Sequence[dict[str, Any]]) -> None:
    """Lines for the kills, in their part's colour, which the legend tells once."""
    for part in dict.fromkeys(str(kill["part"]) for kill in kills):
        moments = [kill["at"] / 60 for kill in kills if kill["part"] == part]
        # one path with gaps: a line each would be half of the picture's bytes
        places = [place for moment in moments for place in (moment, moment, math.nan)]
        heights = [0.0, 1.0, math.nan] * len(moments)
        look: dict[str, Any] = {
            "color": ROLES["driver" if part == FOLLOW else part],
            "linestyle": ":",
            "linewidth": 1.0,
        }
        axes.plot(places, heights, transform=axes.get_xaxis_transform(), label=f"{part} killed", **look)


def _line(axes: Axes, points: Sequence[tuple[float, float]], label: str, colour: str) -> None:
    axes.plot([at for at, _ in points], [value for _, value in points], color=colour, linewidth=1.2, label=label)


def _values(samples: Sequence[Sample], name: str) -> list[tuple[float, float]]:
    return [(sample["at"] / 60, sample[name]) for sample in samples if name in sample]


def _rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    counted = [(sample["at"], sample["commits"]) for sample in samples if "commits" in sample]
    pairs = itertools.pairwise(counted)
    return [(at / 60, (commits - before) / (at - then)) for (then, before), (at, commits) in pairs if at > then]

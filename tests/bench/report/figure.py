"""Figures as SVG that stands inside a page: its fonts, its colours, no header of its own."""

import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS = ("#1d5fd1", "#7a5fd0")
OTHERS = ("#d9742b", "#6b7a89", "#8a5fb0", "#3d8f6f")
LIMIT_COLOUR = "#b3261e"
INK, FAINT = "#1f2933", "#d5dbe1"
ROLES = {
    "driver": "#0b3d91",
    "spark": "#1d5fd1",
    "workers": "#7fb0f5",
    "refresh": "#8f5a3d",
    "postgres": "#3d8f6f",
    "kafka": "#d9742b",
    "connect": "#f0b429",
    "search": "#8a5fb0",
    "bench": "#c3cad2",
}
"""The parts of the work, a job's in blues."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e9edf1",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
_salts = itertools.count()


def colours(sides: Sequence[str]) -> dict[str, str]:
    """A colour a side: blues for ours, however it is called; where no side is, all are ours."""
    blues, others = itertools.cycle(OURS), itertools.cycle(OTHERS)
    compared = any(side.startswith("ours") for side in sides)
    return {side: next(others if compared and not side.startswith("ours") else blues) for side in sides}


class Drawn:
    """A figure's SVG, once the context of `drawing` has ended."""

    svg: str = ""


@contextmanager
def drawing(width: float, height: float) -> Iterator[tuple[Axes, Drawn]]:
    """One plot to draw in, in inches."""
    drawn = Drawn()
    # ids of clip paths come from the salt: two figures of one page must not share them
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"figure{next(_salts)}"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots(), drawn
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    drawn.svg = svg[svg.index("<svg") :]


@contextmanager
def draw_rows(width: float, height: float, rows: int, file: Path) -> Iterator[Sequence[Axes]]:
    """So many plots below each other, of one time; written to a file, and as SVG beside it."""
    # lines of a thousand samples: points that are nearer than a pixel are one, and peaks stay
    paper: dict[Any, Any] = {"figure.facecolor": "white", "savefig.facecolor": "white", "path.simplify_threshold": 1.0}
    with mpl.rc_context({**_STYLE, **paper}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield [*figure.subplots(rows, sharex=True)]
        figure.savefig(file, dpi=110)
        figure.savefig(file.with_suffix(".svg"), metadata={"Date": None})

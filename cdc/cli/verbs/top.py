"""`cdc top`: the status document in a terminal, renewed once an interval."""

import re
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.verbs.status import describe_parts, describe_problem, describe_table, describe_verdict, to_follower_row

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from cdc.run.status.document import Document
    from cdc.run.status.watch import StatusWatch

STYLES: Final = {
    "now": "bold red",
    "today": "yellow",
    "know": "blue",
    "unknown": "magenta",
    "ok": "green",
    "busy": "cyan",
}
CALM: Final = ("ok", "followed", "new", "waits")
MOST_PROBLEMS: Final = 5
LINES_BESIDE: Final = 24
"""Lines that all but the tables take, on a terminal of few lines."""
EVERY: Final = typer.Option("--every", min=0.5, help="Seconds between two looks.")


def register(app: typer.Typer) -> None:
    app.command("top")(top)


def top(context: typer.Context, every: Annotated[float, EVERY] = 2.0) -> None:
    """Show how everything stands, live, until Ctrl-C.

    Without a terminal it prints a line whenever the verdict changes.
    """
    invocation = Invocation.read(context)
    from cdc.run.status.watch import StatusWatch

    with invocation.open_pipeline() as pipeline, StatusWatch(pipeline, every, file=invocation.config) as watch:
        if sys.stdout.isatty():
            _show(watch)
        else:
            _tell(watch)


def _tell(watch: "StatusWatch") -> None:
    last, seen = None, 0
    while True:
        if (document := watch.wait_newer(seen, 1.0)) is not None:
            seen, verdict = document.seq, identify_verdict(document)
            if verdict != last:
                output.data(f"{document.at:%Y-%m-%dT%H:%M:%SZ} {describe_verdict(document)}")
                sys.stdout.flush()
            last = verdict


def identify_verdict(document: "Document") -> tuple[object, ...]:
    """What makes a verdict another one: not a lag, an age or a share that is another one a moment later."""
    title = re.sub(r"\d[\d.,]*( (s|min|h|days?|%))?( \d+ min)?", "…", document.verdict.title)
    return document.verdict.level, title, *sorted(document.problems)


def _show(watch: "StatusWatch") -> None:
    from rich.live import Live

    console = output.open_console(is_terminal=True)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        live.update("looking ...", refresh=True)
        seen = 0
        while True:
            # also without a newer document: then it says how old the last one is
            document = watch.wait_newer(seen, 1.0) or watch.document()
            if document is not None:
                seen = document.seq
                live.update(draw(document, console.height, time.time()), refresh=True)


def draw(document: "Document", height: int, now: float) -> "Group":
    """The document on a screen of so many lines; `now`: seconds since 1970."""
    from rich.console import Group, RenderableType
    from rich.text import Text

    age = max(now - document.at.timestamp(), 0.0)
    head = Text(describe_verdict(document), style=STYLES.get(document.verdict.level, ""))
    looked = f"{document.pipeline.name}, {document.at:%H:%M:%S} UTC, looked {age:.0f} s ago in {document.took_ms} ms"
    problems = list(document.problems.values())
    told = [Text(f"! {describe_problem(problem, document)}", overflow="fold") for problem in problems[:MOST_PROBLEMS]]
    more = [Text(f"  and {len(problems) - MOST_PROBLEMS} more: cdc status")] if len(problems) > MOST_PROBLEMS else []
    room = max(height - LINES_BESIDE - len(document.followers) - len(told), 5)
    parts = [Text(f"{name:<12}{text}") for name, text in describe_parts(document)]
    shown: list[RenderableType] = [
        head,
        Text(looked, style="dim"),
        Text(),
        *parts,
        Text(),
        _draw_followers(document),
        Text(),
    ]
    return Group(*shown, _draw_tables(document, room), *([Text()] if told else []), *told, *more)


def _draw_followers(document: "Document") -> "Table":
    names = ("follower", "at", "is", "changes", "bytes", "seconds", "p50", "p99", "trend")
    grid = _grid(names, numbers=range(3, 8))
    for name, follower in document.followers.items():
        fresh = [
            None if seconds is None else f"{seconds:.1f} s" for seconds in (follower.p50_seconds, follower.p99_seconds)
        ]
        row = [*to_follower_row(name, follower), *fresh, follower.trend or follower.word]
        _add(grid, row, calm=follower.state in CALM)
    return grid


def _draw_tables(document: "Document", room: int) -> "Table":
    """The tables that need somebody first, then the busiest, as many as there is room for."""
    ordered = sorted(
        document.tables.items(), key=lambda item: (item[1].state in CALM, -(item[1].changes_per_minute or 0))
    )
    grid = _grid(("table", "rows", "changes a minute", "state"), numbers=(1, 2))
    for name, table in ordered[:room]:
        row = (name, table.rows, table.changes_per_minute, table.reason or describe_table(table))
        _add(grid, row, calm=table.state in CALM)
    if len(ordered) > room:
        grid.add_row(f"and {len(ordered) - room:,} more")
    return grid


def _grid(names: tuple[str, ...], numbers: Collection[int]) -> "Table":
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(names):
        grid.add_column(name, justify="right" if place in numbers else "left", no_wrap=True)
    return grid


def _add(grid: "Table", row: Sequence[object], *, calm: bool) -> None:
    from rich.text import Text

    # as Text: rich reads brackets in a plain string as markup
    cells = ["" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
    grid.add_row(*map(Text, cells), style="" if calm else "bold")

"""`cdc torture`: writers beside faults, from a seed, and the proof that all followers are equal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.torture.outcome import TortureOutcome


def register(app: typer.Typer) -> None:
    app.command("torture")(torture)


def torture(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed plans the same faults and writes.")] = 1,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="About how long faults are caused.")] = 5.0,
    rate: Annotated[float, typer.Option("--rate", min=0.1, help="Transactions a second of all writers.")] = 30.0,
    schedule: Annotated[
        Path | None, typer.Option("--schedule", metavar="FILE", help="Carry out this schedule, all of it.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the schedule of the seed, and do nothing.")] = False,
    shrink: Annotated[
        float, typer.Option("--shrink", min=0, metavar="MINUTES", help="How long to make a failing schedule smaller.")
    ] = 10.0,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Where to work: below it, in a folder of its own that is gone at the end."),
    ] = None,
    json: Json = False,
) -> None:
    """Torture a pipeline of its own with faults, and compare.

    It starts parts of its own, writes to a database of its own, kills, stops, cuts off and damages what it has
    started, and compares every follower, view and history with the source. No pipeline of yours is touched. A failing
    schedule is written to a file, as small as was found.
    """
    from cdc.core.errors import ConfigurationError
    from cdc.torture import schedule as planning
    from cdc.torture.campaign import run_campaign

    if folder and not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}", "make it, or name another one")
    planned = planning.FaultSchedule.read(schedule) if schedule else planning.plan(seed, minutes, rate)
    if plan:
        output.as_json(planned.as_json())
        return
    # a schedule that somebody names is one to be repeated: it has no other end than its own
    outcome, smallest = run_campaign(planned, output.say, folder, None if schedule else 60 * minutes, 60 * shrink)
    if json:
        again = f"cdc torture --schedule {smallest}" if smallest else None
        output.as_json({**outcome.as_json(), "again": again})
    else:
        _show(outcome)
    if smallest:
        output.say(f"\nagain: cdc torture --schedule {output.relative_path(smallest)}")
    if outcome.failure:
        raise outcome.failure


def _show(outcome: "TortureOutcome") -> None:
    from cdc.torture.outcome import summarize

    rows = [
        (each.fault.kind, each.fault.target, f"{each.fault.lasts:g}", _recovery(each.recovered), each.left_out)
        for each in outcome.faults
    ]
    output.table(("fault", "of", "lasted", "recovered", "left out"), rows)
    found = summarize(outcome.recoveries)
    times = f"; recovered within {found['p50']} s (median), {found['p95']} s (95 %)" if outcome.recoveries else ""
    output.data(
        f"\n{outcome.verdict}: seed {outcome.schedule.seed}, {len(outcome.faults)} faults,"
        f" {outcome.written} transactions, {outcome.reads} reads, {outcome.seconds:.0f} s{times}"
    )


def _recovery(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"

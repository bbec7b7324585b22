"""`cdc demo` and `cdc demo race`."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.options import Json
from cdc.cli.verbs.services import local_home

Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed plans the same writes.")]


def register(app: typer.Typer) -> None:
    demo_app = typer.Typer(rich_markup_mode=None)
    demo_app.callback(invoke_without_command=True)(demo)
    demo_app.command("race")(race)
    app.add_typer(demo_app, name="demo")


def demo(
    context: typer.Context,
    changes: Annotated[int, typer.Option("--changes", min=0, help="How many rows to change.")] = 20_000,
    seed: Seed = 2013,
    down: Annotated[
        bool, typer.Option("--down/--keep", help="Stop the local parts at the end, or leave them.")
    ] = False,
    json: Json = False,
) -> None:
    """See it work: real data through the whole path.

    The parts, 336,776 flights, capture, copies, changes that are followed meanwhile, and every row compared.
    """
    # Typer calls this for `cdc demo race`, too, before its own function
    if context.invoked_subcommand is not None:
        return
    from cdc.cli.verbs.verify import show_report
    from cdc.core.errors import DivergenceError
    from cdc.demo.flights.pointers import list_pointers
    from cdc.demo.flights.run import run_demo
    from cdc.demo.steps import note
    from cdc.local import services as parts

    home = local_home(context)
    outcome = run_demo(home, changes, seed)
    if json:
        output.as_json(outcome.as_json())
    else:
        show_report(outcome.report)
    if down:
        parts.down(home)
    else:
        output.say("\nWhere to look:")
        for what, how in list_pointers(outcome.environment):
            note(f"{what:<17} {how}")
    # last: the report and the pointers help even more then
    if not outcome.report.is_equal:
        raise DivergenceError("followers differ from the source", "see the table above")


def race(
    context: typer.Context,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How many keys two clients write at once.")] = 2_000,
    seed: Seed = 2017,
    json: Json = False,
) -> None:
    """See why not simply to write to both.

    Two clients race through dual writes to the database and the index; then the same writes go through the log.
    """
    from cdc.core.errors import DivergenceError
    from cdc.demo.race import story
    from cdc.demo.race.run import run_race

    outcome = run_race(local_home(context), pairs, seed)
    output.say("")
    if json:
        output.as_json(outcome.as_json())
    else:
        output.table(("what", "tried", "differ for ever"), story.count_pairs(outcome))
    output.say(f"\n{story.describe_outcome(outcome)}")
    if outcome.cdc_diverged:
        raise DivergenceError("database and index differ", "run `cdc -c cdc-race.yaml verify`")

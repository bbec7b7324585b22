"""`cdc plan`: what `cdc bootstrap` would do."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_tables
from cdc.cli.everyday.table_options import parse_tables
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(
    context: typer.Context,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again", help="As `cdc bootstrap` has it: a table to copy once more.", autocompletion=complete_tables
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what `cdc bootstrap` would do, as a diff.

    It only reads, but for an object in the lake's store, which goes again. It checks what a bootstrap checks.
    """
    invocation = Invocation.read(context)
    from cdc.run.plan.plan import plan_bootstrap

    tables = parse_tables(invocation, "--again", again or ())
    with invocation.open_pipeline() as pipeline:
        planned = plan_bootstrap(pipeline, tables)
    if json:
        output.as_json(planned.as_json())
        return
    for notice in planned.notices:
        output.say(notice)
    for step in planned.steps:
        output.data(str(step))
    output.say("`cdc bootstrap` does this" if planned.steps else "everything is as cdc.yaml says: nothing to do")

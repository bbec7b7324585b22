"""`cdc logs`: what each part said last."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json


def register(app: typer.Typer) -> None:
    app.command("logs")(logs)


def logs(
    context: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Newest lines of each part.")] = 10,
    json: Json = False,
) -> None:
    """Show what each part said last.

    `cdc follow` on this machine, each follower's problem, and the connector with its tasks: of a failed one the root
    cause, not the whole trace.
    """
    invocation = Invocation.read(context)
    from cdc.run.last_words import read_last_words

    with invocation.open_pipeline() as pipeline:
        words = read_last_words(pipeline, lines)
    if json:
        output.as_json([each.as_json() for each in words])
        return
    for each in words:
        output.data(f"{each.part}: {each.state}")
        for line in each.lines:
            output.data(f"  {line}")

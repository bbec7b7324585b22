"""`cdc teardown`: takes a pipeline away."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, Yes


def register(app: typer.Typer) -> None:
    app.command("teardown")(teardown)


def teardown(
    context: typer.Context,
    data: Annotated[bool, typer.Option("--data", help="Remove what the followers hold, too: lake, indexes.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Take the pipeline away from all parts.

    Connector, slot, topics and our objects in the source, which is then as it was. It says all first, and asks. Parts
    may be down, and things gone already: it says what is left, and ends with exit code 6; run again, it goes on.
    """
    invocation = Invocation.read(context)
    from cdc.run.teardown.teardown import find_belongings, tear_down

    with invocation.open_pipeline() as pipeline:
        found = find_belongings(pipeline, with_data=data)
        every = [*found.found, *found.last]
        for each in every:
            output.say(f"- {each}")
        for line in found.kept:
            output.say(f"stays: {line}")
        for problem in found.unknown:
            output.say(f"not known: {problem}")
        if every:
            output.confirm(f"remove all of this of pipeline {pipeline.name}?", yes=yes)
        elif not found.unknown:
            output.say(f"nothing of pipeline {pipeline.name} is there")
        done = tear_down(pipeline, found, output.say)
    if json:
        output.as_json({"removed": done.removed, "left": list(map(str, done.left)), "kept": found.kept})
    done.check_whole()

"""`cdc recapture`: starts the capture anew, under the same name, after changes were lost."""

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, Yes
from cdc.cli.progress import open_progress


def register(app: typer.Typer) -> None:
    app.command("recapture")(recapture)


def recapture(context: typer.Context, yes: Yes = False, json: Json = False) -> None:
    """Start the capture anew, when history was lost.

    For a lost slot, publication, topic or Kafka, and for a source restored from a backup. It prints its plan, and asks.
    The followers keep their rows until the copies are there.
    """
    invocation = Invocation.read(context)
    from cdc.core.position import format_lsn
    from cdc.run.copy.recapture import plan_recapture
    from cdc.run.copy.recapture import recapture as run
    from cdc.run.spark.errors import translate_errors

    with translate_errors("the recapture"), invocation.open_pipeline("recapture") as pipeline:
        # the plan checks everything that can be checked, so the question comes only when it would work
        for line in plan_recapture(pipeline).lines():
            output.say(line)
        output.confirm(f"start the capture of pipeline {pipeline.name} anew?", yes=yes)
        with open_progress() as progress:
            done = run(pipeline, output.say, progress)
    if json:
        copied = {str(name): rows for name, rows in done.copied.items()}
        output.as_json({"lsn": format_lsn(done.lsn), "copied": copied})
    else:
        output.table(("table", "copied rows"), [(str(name), rows) for name, rows in done.copied.items()])

"""`cdc erase`: takes one row out of everything that the pipeline has."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_tables
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, Yes


def register(app: typer.Typer) -> None:
    app.command("erase")(erase)


def erase(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    table: Annotated[str, typer.Option("--table", "-t", help="As schema.table.", autocompletion=complete_tables)],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", help="Its key, as Postgres writes it; one for each column. Else read from stdin, by line."
        ),
    ] = None,
    value: Annotated[list[str] | None, typer.Option("--value", help="A further text to search for.")] = None,
    folder: Annotated[
        list[Path] | None,
        typer.Option("--folder", help="Search this, too: data of brokers or nodes.", exists=True, file_okay=False),
    ] = None,
    delete_at_source: Annotated[
        bool, typer.Option("--delete-at-source", help="Delete the row in Postgres, too, by the pipeline's user.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do and cost, and do nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Erase one row: log, lake, views, histories, index.

    It says all first, and asks. `cdc follow` has to be stopped: this brings the followers on by itself. Killed, it goes
    on when it is run again. It ends with a search for the row's bytes, and a signed report; exit code 6 when some are
    left.
    """
    invocation = Invocation.read(context)
    from cdc.core.table import TableName
    from cdc.run.erase.erase import Erasure, ErasureRequest
    from cdc.run.erase.report import summarize
    from cdc.run.spark.errors import translate_errors

    asked = ErasureRequest(
        TableName.parse(table), key or sys.stdin.read().splitlines(), value or [], folder or [], delete_at_source
    )
    with translate_errors("the erasure"), invocation.open_pipeline("erase") as pipeline:
        erasure = Erasure(pipeline, asked, output.say)
        plan = erasure.plan()
        for line in plan.lines:
            output.say(line)
        if dry_run:
            if json:
                output.as_json(plan.as_json())
            return
        output.confirm(f"erase this row of {table}?", yes=yes)
        report, path = erasure.run()
    if json:
        output.as_json({**report.as_json(), "report": str(path)})
    else:
        output.table(("place", "found before", "after"), summarize(report.before, report.after))
    output.say(f"the report is {path}, signed beside it")
    report.check_gone()

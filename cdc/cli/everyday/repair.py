"""`cdc repair`: puts right the rows of keys that differ."""

import json as jsons
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.everyday.table_options import parse_tables
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, OnlyFollowers, OnlyTables

if TYPE_CHECKING:
    from cdc.run.repair.report import RepairReport


def register(app: typer.Typer) -> None:
    app.command("repair")(repair)


def repair(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    follower: OnlyFollowers = None,
    table: OnlyTables = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this row, by its key as Postgres writes it; a JSON list of several columns."),
    ] = None,
    most: Annotated[int, typer.Option(help="At most so many keys of a table; for more, a copy costs less.")] = 10_000,
    wait: Annotated[float, typer.Option(help="Seconds to wait for followers at each step.")] = 120.0,
    json: Json = False,
) -> None:
    """Put right the rows that differ, by their keys.

    It finds them as `cdc verify` does, reads them again from the source, has them written in every follower, and
    compares exactly these again. Works beside `cdc follow`; without one, it brings the followers on by itself. Exit
    code 5 when rows differ still.
    """
    invocation = Invocation.read(context)
    from cdc.run.pipeline import select_followers
    from cdc.run.repair.repair import RepairTask
    from cdc.run.repair.repair import repair as run
    from cdc.run.spark.errors import translate_errors

    names = select_followers(invocation.settings, follower or [])
    tables = parse_tables(invocation, "--table", table or ())
    task = RepairTask(names, tables, [_parse_key(text) for text in key or ()], most, wait)
    with translate_errors("the repair"), invocation.open_pipeline("repair") as pipeline:
        report = run(pipeline, task, output.say)
    if json:
        output.as_json(report.as_json())
    else:
        show(report)
    report.check_equal()


def show(report: "RepairReport") -> None:
    """Print one line a table, and why others were not repaired."""
    output.table(("table", "verdict", "keys repaired", "rounds", "differs still in"), report.rows())
    for name, error in report.failed.items():
        output.warn(f"{name}: {error}")


def _parse_key(text: str) -> list[str]:
    """The texts of a key's columns: of one alone, the text itself."""
    try:
        parts = jsons.loads(text) if text.startswith("[") else [text]
    except ValueError:
        parts = [text]
    return [part if isinstance(part, str) else jsons.dumps(part) for part in parts]

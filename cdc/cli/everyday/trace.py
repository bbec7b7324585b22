"""`cdc trace`: where one row is."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json


def register(app: typer.Typer) -> None:
    app.command("trace")(trace)


def trace(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="A followed table, as schema.table.")],
    key: Annotated[list[str], typer.Argument(metavar="KEY...", help="Its key's values, as Postgres writes them.")],
    messages: Annotated[int, typer.Option(min=1, help="Read so many newest messages of a partition.")] = 200_000,
    values: Annotated[bool, typer.Option("--values", help="Show the row's values, too.")] = False,
    json: Json = False,
) -> None:
    """Show where one row is, from the source to every follower.

    Each place says up to which LSN it shows the source, since when, and whether the row there is the source's.
    """
    invocation = Invocation.read(context)
    from cdc.core.position import format_lsn
    from cdc.core.table import TableName
    from cdc.run.trace.trace import trace_row

    with invocation.open_pipeline() as pipeline:
        traced = trace_row(pipeline, TableName.parse(table), key, messages)
    if json:
        output.as_json(traced.as_json(values=values))
        return
    source, rows = traced.sightings[0], []
    for each in traced.sightings:
        lsn = format_lsn(each.lsn) if each.lsn is not None else None
        rows.append((each.place, each.describe(source), lsn, each.at, each.note))
    output.table(("place", "row", "at", "committed", "note"), rows)
    if values:
        for each in traced.sightings:
            if each.row is not None:
                output.data(f"{each.place}: {output.to_json(each.row)}")

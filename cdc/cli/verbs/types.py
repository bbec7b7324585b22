"""`cdc types`: the types of Postgres, and those that they become in the followers."""

from dataclasses import asdict, astuple
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.options import Json


def register(app: typer.Typer) -> None:
    app.command("types")(describe_types)


def describe_types(
    json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of Markdown.")] = False,
) -> None:
    """Show the follower types of each Postgres type.

    In the lake and in the index, with the bounds within which values are exact, and what views do with them as with
    texts.
    """
    from cdc.run import type_table

    if json:
        output.as_json([asdict(row) for row in type_table.describe_types()])
    elif as_markdown:
        output.data(type_table.to_markdown())
    else:
        output.table(type_table.HEAD, [astuple(row) for row in type_table.describe_types()])

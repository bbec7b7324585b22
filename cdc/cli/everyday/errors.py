"""`cdc errors`: the kinds of errors, with their codes."""

from dataclasses import astuple
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.options import Json
from cdc.core.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    app.command("errors")(errors)


def errors(
    code: Annotated[str | None, typer.Argument(help="Only this one, as a log in JSON has it.")] = None,
    json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of Markdown.")] = False,
) -> None:
    """List the kinds of errors: code, exit code, what helps."""
    from cdc.run import error_table

    rows = [row for row in error_table.describe_errors() if code in (None, row.code)]
    if not rows:
        raise ConfigurationError(f"there is no error code {code}", "`cdc errors` lists all")
    if json:
        output.as_json([row.as_json() for row in rows])
    elif as_markdown:
        output.data(error_table.to_markdown())
    else:
        output.table(error_table.HEAD, [astuple(row) for row in rows])

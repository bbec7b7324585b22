"""`cdc wait`: return when a follower shows what was committed before a token was taken."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_followers
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json
from cdc.core.table import TableName


def register(app: typer.Typer) -> None:
    app.command("wait")(wait)


def wait(
    context: typer.Context,
    token: Annotated[str, typer.Option(help="An LSN of the source: `cdc.token(connection)` after a commit.")],
    follower: Annotated[
        str, typer.Option("--follower", "-f", help="Whose readers are to see it.", autocompletion=complete_followers)
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="What they read, a table or view; all that the follower holds without any.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Give up after so many seconds.")] = 30.0,
    json: Json = False,
) -> None:
    """Wait until readers of a follower see one's own write."""
    invocation = Invocation.read(context)
    from cdc.run.read.tokens import wait_for_token

    with invocation.open_pipeline() as pipeline:
        reached = wait_for_token(pipeline, follower, token, seconds, list(map(TableName.parse, table or ())))
    if json:
        output.as_json({"follower": follower, "token": token, "shown": reached})
    else:
        output.data(f"{follower} shows {reached}")

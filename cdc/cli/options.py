"""Options that several verbs share, so that they read the same in every `--help`."""

from typing import Annotated

import typer

from cdc.cli.completion import complete_followers, complete_tables_and_views

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
OnlyFollowers = Annotated[
    list[str] | None,
    typer.Option("--follower", "-f", help="Only this one; repeat.", autocompletion=complete_followers),
]
OnlyTables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only this one; repeat.", autocompletion=complete_tables_and_views),
]

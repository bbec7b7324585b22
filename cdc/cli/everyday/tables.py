"""`cdc tables add|remove`: edits which tables cdc.yaml names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation

if TYPE_CHECKING:
    from cdc.config.table_edit import TableEdit

Names = Annotated[list[str], typer.Argument(metavar="TABLE...", help="As schema.table, or a pattern: sales.*")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Edit which tables are followed.")
    verbs.command("add")(add)
    verbs.command("remove")(remove)
    app.add_typer(verbs, name="tables")


def add(context: typer.Context, names: Names) -> None:
    """Name tables in cdc.yaml, beside the others.

    Comments stay. The file is checked before it is written, and nothing else is done: it says what to run next.
    """
    from cdc.config.table_edit import add_tables

    _edit(context, add_tables, names, "`cdc bootstrap` copies what is new; then start `cdc follow` again")


def remove(context: typer.Context, names: Names) -> None:
    """Take tables out of cdc.yaml.

    One that a pattern names is excluded by a line of its own. Followers keep the rows.
    """
    from cdc.config.table_edit import remove_tables

    _edit(context, remove_tables, names, "stop `cdc follow`, run `cdc bootstrap`, and start it again")


def _edit(
    context: typer.Context, edit: "Callable[[Path, Sequence[str]], TableEdit]", names: Sequence[str], then: str
) -> None:
    edited = edit(Invocation.of(context).config, names)
    if not edited.added and not edited.removed:
        output.say(f"nothing to do: {edited.path} has it already")
        return
    edited.write()
    for sign, entries in (("-", edited.removed), ("+", edited.added)):
        for entry in entries:
            output.data(f"{sign} {entry}")
    output.say(f"{edited.path} is written; `cdc plan` shows what changes; {then}")

"""`cdc tables add|remove`: edits which tables cdc.yaml names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_entries
from cdc.cli.invocation import Invocation

if TYPE_CHECKING:
    from cdc.config.table_edit import TableEdit

Names = Annotated[list[str], typer.Argument(metavar="TABLE...", help="As schema.table, or a pattern: sales.*")]

NamesThere = Annotated[
    list[str],
    typer.Argument(metavar="TABLE...", help="As schema.table, or as it is there.", autocompletion=complete_entries),
]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Edit which tables are followed.")
    verbs.command("add")(add)
    verbs.command("remove")(remove)
    app.add_typer(verbs, name="tables")


def add(context: typer.Context, names: Names) -> None:
    """Name tables in cdc.yaml, beside the others.

    Comments stay. The file is checked before it is written: where the source answers within seconds, each table is
    there. Nothing else is done: it says what to run next.
    """
    from cdc.config.table_edit import add_tables

    then = "`cdc bootstrap` copies what is new, and a running `cdc follow` goes on with it"
    _edit(context, add_tables, names, then, _check_there)


def remove(context: typer.Context, names: NamesThere) -> None:
    """Take tables out of cdc.yaml.

    One that a pattern names is excluded by a line of its own. Followers keep the rows.
    """
    from cdc.config.table_edit import remove_tables

    _edit(context, remove_tables, names, "stop `cdc follow`, run `cdc bootstrap`, and start it again")


def _check_there(path: Path, edited: "TableEdit") -> None:
    """Refuse a table that the source does not have, and say so if it does not answer; patterns name later ones, too."""
    from cdc.config.file import check_text
    from cdc.core.errors import CdcError, ConfigurationError
    from cdc.core.selection import Selection
    from cdc.run.tables.source_check import find_absent

    names = Selection.of(edited.added).names
    try:
        absent = find_absent(check_text(edited.text, path).settings, names) if names else []
    except CdcError as error:
        output.warn(f"not checked against the source: {error}")
        return
    if absent:
        raise ConfigurationError(f"the source has no table {', '.join(map(str, absent))}", "correct the name")


def _edit(
    context: typer.Context,
    edit: "Callable[[Path, Sequence[str]], TableEdit]",
    names: Sequence[str],
    then: str,
    check: "Callable[[Path, TableEdit], None]" = lambda path, edited: None,
) -> None:
    edited = edit(Invocation.of(context).config, names)
    if not edited.added and not edited.removed:
        output.say(f"nothing to do: {edited.path} has it already")
        return
    check(edited.path, edited)
    edited.write()
    for sign, entries in (("-", edited.removed), ("+", edited.added)):
        for entry in entries:
            output.data(f"{sign} {entry}")
    output.say(f"{edited.path} is written; `cdc plan` shows what changes; {then}")

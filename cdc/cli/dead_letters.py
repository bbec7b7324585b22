"""`cdc dead-letters`: what could not be applied."""

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, OnlyTables, Yes
from cdc.core.plural import format_count

if TYPE_CHECKING:
    from cdc.run.dead_letters import ReplayResult

Values = Annotated[bool, typer.Option("--values", help="Show keys and values, which are masked otherwise.")]
Places = Annotated[list[str], typer.Argument(help="As `list` names them: topic[partition]@offset.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    verbs = typer.Typer(no_args_is_help=True, help="Messages that could not be applied.")
    verbs.command("list")(list_keys)
    verbs.command("show")(show)
    verbs.command("replay")(replay)
    verbs.command("drop")(drop)
    app.add_typer(verbs, name="dead-letters")


def list_keys(context: typer.Context, json: Json = False, values: Values = False) -> None:
    """List the keys that are held, and why."""
    settings = Invocation.of(context).settings
    from cdc.run.dead_letters import list_held_keys, render_text

    held = list_held_keys(settings)
    if json:
        output.as_json([each.as_json(values=values) for each in held])
        return
    rows = [
        (
            str(each.table),
            render_text(each.key, values=values) or "(none)",
            len(each.places),
            each.places[0],
            each.reason,
        )
        for each in held
    ]
    output.table(("table", "key", "messages", "first", "reason"), rows)


def show(
    context: typer.Context, place: Annotated[str, typer.Argument()], json: Json = False, values: Values = False
) -> None:
    """Show one message, its values masked."""
    settings = Invocation.of(context).settings
    from cdc.run.dead_letters import find_letter, render_text

    letter = find_letter(settings, place)
    message = letter.message
    found = {
        "table": str(letter.table),
        "place": letter.location,
        "reason": message.refusal.reason,
        "key": render_text(message.key, values=values),
        "value": render_text(message.value, values=values),
    }
    if json:
        output.as_json(found)
        return
    for name, text in found.items():
        output.data(f"{name:7}{text}")


def replay(
    context: typer.Context,
    table: OnlyTables = None,
    json: Json = False,
) -> None:
    """Apply what can be read by now.

    After an upgrade, for instance. `cdc follow` must not run meanwhile.
    """
    settings = Invocation.of(context).settings
    from cdc.core.table import TableName
    from cdc.run.dead_letters import replay as run

    _print_result(run(settings, [TableName.parse(name) for name in table or ()]), json)


def drop(context: typer.Context, places: Places, yes: Yes = False, json: Json = False) -> None:
    """Give up what cannot be read.

    Of the keys of these messages; what waits behind them is applied.
    """
    settings = Invocation.of(context).settings
    output.confirm(f"Drop what cannot be read of the keys of {format_count(len(places), 'message')}?", yes=yes)
    from cdc.run.dead_letters import drop as run

    _print_result(run(settings, places), json)


def _print_result(done: "ReplayResult", json: bool) -> None:
    from cdc.run.dead_letters import render_text

    if json:
        stay = [
            {"table": str(name), "key": render_text(key, values=False), "reason": why} for name, key, why in done.stay
        ]
        output.as_json({"applied": done.applied, "stay": stay})
        return
    output.say(
        f"{format_count(done.applied, 'message')} settled; followers behind the lake have them with its next cut"
    )
    for name, _, why in done.stay:
        output.say(f"{name}: a key stays held: {why} (`cdc bootstrap --again {name}` copies the table as it is now)")

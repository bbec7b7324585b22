"""`cdc dead-letters`: messages that could not be applied."""

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, OnlyTables, Yes
from cdc.core.text.plural import format_count

if TYPE_CHECKING:
    from cdc.run.dead_letters import ReplayResult

Values = Annotated[bool, typer.Option("--values", help="Show keys and values, which are masked otherwise.")]
Places = Annotated[list[str], typer.Argument(help="As `list` names them: topic[partition]@offset.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Messages that could not be applied.")
    verbs.command("list")(list_keys)
    verbs.command("show")(show)
    verbs.command("replay")(replay)
    verbs.command("drop")(drop)
    app.add_typer(verbs, name="dead-letters")


def list_keys(context: typer.Context, json: Json = False, values: Values = False) -> None:
    """List the keys that are held, and why."""
    invocation = Invocation.read(context)
    from cdc.run.dead_letters import list_blocked_keys, render_text

    with invocation.open_pipeline() as pipeline:
        keys = list_blocked_keys(pipeline)
    if json:
        output.as_json([key.as_json(values=values) for key in keys])
        return
    rows = []
    for key in keys:
        # a message of a table without a key, or a TRUNCATE, has none
        text = render_text(key.key, values=values) or "(none)"
        rows.append((str(key.table), text, len(key.locations), key.locations[0], key.reason))
    output.table(("table", "key", "messages", "first", "reason"), rows)


def show(
    context: typer.Context, place: Annotated[str, typer.Argument()], json: Json = False, values: Values = False
) -> None:
    """Show one message, its values masked."""
    invocation = Invocation.read(context)
    from cdc.run.dead_letters import find_letter, render_text

    with invocation.open_pipeline() as pipeline:
        letter = find_letter(pipeline, place)
    message = letter.message
    fields = {
        "table": str(letter.table),
        "place": letter.location,
        "reason": message.refusal.reason,
        "key": render_text(message.key, values=values),
        "value": render_text(message.value, values=values),
    }
    if json:
        output.as_json(fields)
        return
    for name, text in fields.items():
        output.data(f"{name:7}{text}")


def replay(context: typer.Context, table: OnlyTables = None, json: Json = False) -> None:
    """Apply messages that can be decoded by now.

    After an upgrade, for instance. `cdc follow` must not run meanwhile.
    """
    invocation = Invocation.read(context)
    from cdc.core.table import TableName
    from cdc.run.dead_letters import replay as run

    with invocation.open_pipeline() as pipeline:
        done = run(pipeline, [TableName.parse(name) for name in table or ()])
    _print_result(done, json=json)


def drop(context: typer.Context, places: Places, yes: Yes = False, json: Json = False) -> None:
    """Drop messages that cannot be decoded.

    Of the keys of these messages; messages that wait behind them are applied.
    """
    invocation = Invocation.read(context)
    # asked before the heavy imports, so that a no is quick
    output.confirm(f"Drop what cannot be read of the keys of {format_count(len(places), 'message')}?", yes=yes)
    from cdc.run.dead_letters import drop as run

    with invocation.open_pipeline() as pipeline:
        done = run(pipeline, places)
    _print_result(done, json=json)


def _print_result(done: "ReplayResult", *, json: bool) -> None:
    from cdc.run.dead_letters import render_text

    if json:
        stay = [
            {"table": str(name), "key": render_text(key, values=False), "reason": why}
            for name, key, why in done.still_blocked
        ]
        output.as_json({"applied": done.applied, "stay": stay})
        return
    output.say(
        f"{format_count(done.applied, 'message')} settled; followers behind the lake have them with its next cut"
    )
    for name, _, why in done.still_blocked:
        output.say(f"{name}: a key stays held: {why} (`cdc bootstrap --again {name}` copies the table as it is now)")

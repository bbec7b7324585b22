"""`cdc rebuild`: builds a follower, a table or a view anew beside the old one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_rebuilt, complete_tables_and_views
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json
from cdc.cli.progress import open_progress

if TYPE_CHECKING:
    from cdc.core.table import TableName
    from cdc.run.rebuild.work import RebuildPlan, RebuildResult


def register(app: typer.Typer) -> None:
    app.command("rebuild")(rebuild)


def rebuild(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A follower, a table or a view.", autocompletion=complete_rebuilt),
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", help="Only this one of the follower; repeat.", autocompletion=complete_tables_and_views
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="source|lake|log", help="Of what; else a table of the source, others of the lake."
        ),
    ] = None,
    back_out: Annotated[
        bool, typer.Option("--back-out", help="Give it up midway, or return to what was there before it.")
    ] = False,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Take away what is kept of before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do and cost, and do nothing.")] = False,
    json: Json = False,
) -> None:
    """Build a follower, table or view anew, and swap.

    It is brought on, compared, and swapped at one position, beside a running `cdc follow`; exit code 5 when it is not
    equal: then nothing is swapped. Killed, it goes on when it is run again.
    """
    invocation = Invocation.read(context)
    from cdc.core.errors import ConfigurationError
    from cdc.core.table import TableName
    from cdc.run.rebuild.rebuild import AskedRebuild, Rebuilder
    from cdc.run.rebuild.work import From
    from cdc.run.spark.errors import translate_errors

    if source is not None and source not in list(From):
        raise ConfigurationError(f"--from {source} is none of {', '.join(From)}", "correct it")
    asked = AskedRebuild(what, [TableName.parse(name) for name in table or ()], From(source) if source else None)
    with (
        translate_errors("the rebuild"),
        invocation.open_pipeline("rebuild") as pipeline,
        open_progress() as progress,
    ):
        rebuilder = Rebuilder(pipeline, asked, output.say, progress)
        if drop_old:
            _print_dropped(rebuilder.drop_old(), json=json)
        elif back_out:
            _print_results(rebuilder.back_out(), json=json)
        else:
            _print_plans(rebuilder.plan(), json=json and dry_run)
            if not dry_run:
                _print_results(rebuilder.run(), json=json)


def _print_dropped(tables: "Sequence[TableName]", *, json: bool) -> None:
    if json:
        output.as_json([str(name) for name in tables])
    else:
        output.say(f"taken away: {', '.join(map(str, tables)) or 'nothing, as nothing was kept'}")


def _print_plans(plans: "Sequence[RebuildPlan]", *, json: bool) -> None:
    for line in [line for plan in plans for line in plan.lines]:
        output.say(line)
    if json:
        output.as_json([plan.as_json() for plan in plans])


def _print_results(done: "Sequence[RebuildResult]", *, json: bool) -> None:
    if json:
        output.as_json([each.as_json() for each in done])
        return
    rows = [(str(name), count) for each in done for name, count in each.rows.items()]
    if rows:
        output.table(("table", "rows"), rows)
    for each in done:
        if each.kept_until is not None:
            output.say(f"{each.what}: the old is kept until {each.as_json()['kept_until']}; `--back-out` returns to it")

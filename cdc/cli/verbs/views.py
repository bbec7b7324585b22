"""`cdc views`: what is derived from the tables and kept up in the lake."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_views
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

View = Annotated[str, typer.Argument(help="A view of cdc.yaml, as schema.view.", autocompletion=complete_views)]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="What is derived from the tables and kept up.")
    verbs.command("list")(list_views)
    verbs.command("explain")(explain)
    app.add_typer(verbs, name="views")


def list_views(context: typer.Context, json: Json = False) -> None:
    """List the views: rows, position, and how changes reach them."""
    invocation = Invocation.read(context)
    from cdc.run.views.kept_views import describe_views

    with invocation.open_pipeline() as pipeline:
        views = describe_views(pipeline)
    if json:
        output.as_json([view.as_json() for view in views])
        return
    from cdc.core.position import format_lsn

    ats = [format_lsn(view.lsn) if view.lsn is not None else None for view in views]
    rows = [(str(v.name), v.rows, at, v.state, v.problem or "") for v, at in zip(views, ats, strict=True)]
    output.table(("view", "rows", "at", "state", "problem"), rows)


def explain(context: typer.Context, name: View, json: Json = False) -> None:
    """Show how a change of each table reaches a view: by its key, by an index of which columns, or as a whole."""
    invocation = Invocation.read(context)
    from cdc.run.views.kept_views import explain_view, find_whole_reason

    with invocation.open_pipeline() as pipeline:
        explanation, whole = explain_view(pipeline, name), find_whole_reason(pipeline, name)
    if json:
        output.as_json({**explanation.as_json(), "whole": whole})
        return
    output.table(("a change of", "reaches the view"), [(use.table, use.way) for use in explanation.uses])
    output.data("")
    indexes = [(str(table), ", ".join(columns)) for table, columns in explanation.indexes]
    output.table(("index of", "by"), indexes)
    output.data("")
    output.data(f"evaluated by {explanation.engine}")
    for each in explanation.unproven:
        output.data(f"  {each.name} (line {each.line}, column {each.column}): {each.why}")
    if whole:
        output.data(f"computed as a whole at present: {whole}")

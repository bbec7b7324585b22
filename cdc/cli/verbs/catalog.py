"""`cdc catalog`: what others need to find the lake's tables by name."""

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json
from cdc.core.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="What others need to find the lake's tables by name.")
    verbs.command("ddl")(print_ddl)
    app.add_typer(verbs, name="catalog")


def print_ddl(
    context: typer.Context,
    kind: Annotated[str, typer.Option("--for", help="Whose statements: unity, athena (with Glue).")] = "unity",
    json: Json = False,
) -> None:
    """Print the SQL that registers tables and views in a catalog.

    For catalogs that `catalog:` of cdc.yaml does not keep by itself: run it there, again after new tables.
    """
    invocation = Invocation.read(context)
    from cdc.run.catalog.ddl import KINDS, list_statements
    from cdc.run.catalog.keeper import CatalogKeeper

    if kind not in KINDS:
        raise ConfigurationError(f"cdc knows no statements for {kind}", f"take one of {', '.join(KINDS)}")
    with invocation.open_pipeline() as pipeline:
        entries, refused = CatalogKeeper(pipeline).list_entries()
    for name, why in refused.items():
        output.say(f"left out: {name}: {why}")
    statements = [*list_statements(entries.values(), kind)]
    if json:
        output.as_json(statements)
    else:
        output.data("\n".join(statements))

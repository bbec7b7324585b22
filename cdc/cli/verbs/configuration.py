"""`cdc init`, `cdc config check|render|schema`, `cdc version`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.config.settings import PipelineSettings
    from cdc.run.tables.column_notices import AskedTables

VERSIONS = ("cdc-toolkit", "pyspark", "delta-spark", "deltalake", "pyarrow")
"""Distributions whose versions matter most for a failure."""


def register(app: typer.Typer) -> None:
    app.command("init")(init)
    app.command("version")(version)
    config = typer.Typer(help="Check and show the configuration.", rich_markup_mode=None)
    config.command("check")(check)
    config.command("render")(render)
    config.command("schema")(schema)
    app.add_typer(config, name="config")


def init(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    name: Annotated[str | None, typer.Option(help="The pipeline's name.")] = None,
    table: Annotated[list[str] | None, typer.Option(help="A table to follow, as schema.table.")] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; that of --config where left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    local: Annotated[bool, typer.Option("--local", help="For the parts that `cdc up` has started here.")] = False,
    dbname: Annotated[str | None, typer.Option("--dbname", help="The source's database.")] = None,
) -> None:
    """Write a commented configuration to start from."""
    from dataclasses import replace

    from cdc.config.init import TemplateValues, local_values, write

    path = output_file or Invocation.of(context).config
    # options override the values of the local services
    values = local_values(path) if local else TemplateValues()
    values = replace(
        values, name=name or values.name, tables=tuple(table or values.tables), dbname=dbname or values.dbname
    )
    write(path, values, force=force)
    output.say(f"{path} written; edit it, then run `cdc config check`")


def check(context: typer.Context) -> None:
    """Read the configuration and say everything that is wrong with it.

    Where the source answers within seconds, tables are refused that are not there or cannot be followed. By its tables,
    or else the lake's, views are refused that would stop. Also told are columns that views take otherwise than Postgres
    does, and columns and inheriting tables that are not sent. Indexes that `indexes` of a follower describes are made
    in its cluster under another name, and deleted at once. Where there is a lake, names that a history has in it are
    refused.
    """
    invocation = Invocation.of(context)
    settings = invocation.settings
    from cdc.run.tables.column_notices import ask_tables
    from cdc.run.tables.history_places import check_places
    from cdc.run.tables.index_check import check_indexes
    from cdc.run.tables.view_check import check_views

    with invocation.open_pipeline() as pipeline:
        check_places(pipeline)
        asked = ask_tables(pipeline)
        for notice in asked.notices:
            output.warn(str(notice))
        if asked.unasked:
            _tell_unasked(asked, settings)
        _check_refusals(settings, asked)
        if asked.tables:
            check_views(pipeline, asked.tables)
            check_indexes(pipeline, asked.tables, output.say)
    tables, followers = len(settings.source.tables), ", ".join(settings.followers)
    output.data(f"{invocation.config}: ok: pipeline {settings.pipeline.name}, tables: {tables}, followers: {followers}")


def _tell_unasked(asked: "AskedTables", settings: "PipelineSettings") -> None:
    """Say that the source was not asked; raise what it has against being asked: another look would end the same."""
    from cdc.core.errors import UnreachableError
    from cdc.run.tables.index_check import has_described

    if not isinstance(asked.unasked, UnreachableError):
        assert asked.unasked
        raise asked.unasked
    unchecked = ["its tables"]
    if settings.views and not asked.tables:
        unchecked.append("the views over them")
    if has_described(settings) and not asked.tables:
        unchecked.append("the columns of indexes")
    output.warn(f"the source was not asked: {' and '.join(unchecked)} were not checked: {asked.unasked}")


def _check_refusals(settings: "PipelineSettings", asked: "AskedTables") -> None:
    from itertools import chain

    from cdc.connect.source.catalog import TablesRefusedError

    named = set(settings.selection.names)
    for name, reasons in asked.refusals.items():
        for reason in reasons if name not in named else ():
            output.warn(f"not followed: {reason}")
    if refused := [reasons for name, reasons in asked.refusals.items() if name in named]:
        raise TablesRefusedError(chain.from_iterable(refused))


def render(context: typer.Context) -> None:
    """Print the configuration resolved and complete, without secrets."""
    from cdc.config.file import render as render_settings

    # one line end: `output.data` writes its own
    output.data(render_settings(Invocation.of(context).loaded).rstrip("\n"))


def schema(
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a table per block, for people.")] = False,
) -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    import json

    from cdc.config.file import schema as file_schema

    if as_markdown:
        from cdc.config.settings_page import to_markdown

        output.data(to_markdown())
        return

    output.data(json.dumps(file_schema(), indent=2))


def version(
    json: Json = False,
    sbom: Annotated[
        bool, typer.Option("--sbom", help="All packages and jars with versions, licences and hashes, as CycloneDX.")
    ] = False,
) -> None:
    """Print the versions of the toolkit, Python and Spark."""
    import platform

    if sbom:
        from cdc.local.fetch.bom import describe_installation

        output.data(describe_installation())
        return
    versions = {"python": platform.python_version(), **{name: read_version(name) for name in VERSIONS}}
    if json:
        output.as_json(versions)
    else:
        output.fields(versions)


def read_version(distribution: str) -> str:
    """The version of a distribution, without importing it; `not installed` if it is missing."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of(distribution)
    except PackageNotFoundError:
        return "not installed"

"""`cdc up`, `cdc down`, `cdc parts`, `cdc plugin`: Postgres, Kafka, Connect and OpenSearch as local processes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, Yes
from cdc.cli.output import relative_path
from cdc.cli.progress import open_progress

if TYPE_CHECKING:
    from cdc.local.services import Service
    from cdc.local.state_dir import Home

Only = Annotated[list[str] | None, typer.Option("--only", help="postgres, kafka, connect or search; repeat for more.")]
# no setting: `cdc up` runs before there is a configuration
STATE = ".cdc"


def register(app: typer.Typer) -> None:
    app.command("up")(up)
    app.command("down")(down)
    app.command("parts")(parts)
    app.command("plugin")(plugin)


def local_home(context: typer.Context) -> "Home":
    """The hidden folder of the local services, beside the configuration file."""
    from cdc.local.state_dir import Home

    return Home((Invocation.of(context).config.parent / STATE).absolute())


def up(context: typer.Context, only: Only = None, json: Json = False) -> None:
    """Start the local parts, and wait until they answer.

    Postgres, Kafka, Kafka Connect with Debezium, and OpenSearch, as processes of yours, without Docker.
    """
    from cdc.local import services as local
    from cdc.local.endpoints import CONNECT_USER

    with open_progress() as progress:
        endpoints = local.up(local_home(context), _parse_services(only), progress)
    if json:
        # the passwords' files, never the passwords
        output.as_json(
            {
                **asdict(endpoints),
                "postgres_password": str(endpoints.postgres_password.file),
                "connect_password": str(endpoints.connect_password.file),
            }
        )
    else:
        output.fields(
            {
                "postgres": f"{endpoints.postgres_host}:{endpoints.postgres_port} user {endpoints.postgres_user}",
                "password": f"in {relative_path(endpoints.postgres_password.file)}",
                "kafka": endpoints.kafka_bootstrap,
                "connect": f"{endpoints.connect_url} user {CONNECT_USER}, password in"
                f" {relative_path(endpoints.connect_password.file)}",
                "search": endpoints.search_url,
            }
        )


def down(
    context: typer.Context,
    only: Only = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove their data as well; lakes stay.")] = False,
    yes: Yes = False,
) -> None:
    """Stop the local parts; no process of them is left.

    Their data stays unless --wipe is given. Lakes stay in either case.
    """
    from cdc.local import services as local

    home = local_home(context)
    if wipe:
        output.confirm(f"remove all data of the local parts in {relative_path(home.path)} (lakes stay)?", yes=yes)
    # after the question: a no leaves everything running
    stopped = local.down(home, _parse_services(only))
    output.say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    if wipe:
        # after the processes have ended, which write to these folders
        local.wipe(home)
        output.say(
            f"removed the data, ports, passwords and logs of the local parts in {relative_path(home.path)};"
            " lakes, configurations, downloads and secrets of yours stay"
        )


def parts(context: typer.Context, json: Json = False) -> None:
    """Show the local parts: process, port, memory, log."""
    from cdc.local import services as local

    statuses = local.status(local_home(context))
    if json:
        output.as_json([{**asdict(status), "log": str(status.log)} for status in statuses])
        return
    rows = []
    for s in statuses:
        state, memory = "running" if s.running else "stopped", f"{s.resident_bytes >> 20} MiB"
        rows.append((s.part, state, s.pid, s.port, memory, relative_path(s.log)))
    output.table(("part", "state", "pid", "port", "memory", "log"), rows)


def plugin(
    folder: Annotated[Path, typer.Argument(help="Where to, such as Debezium's folder below plugin.path.")],
) -> None:
    """Write the jar that a Kafka Connect of yours needs.

    It sends as text the types that Debezium cannot hold whole: arrays, intervals, ranges, composites. The Connect of
    `cdc up` has it.
    """
    from cdc.local.connect_jar import write_connect_jar

    with open_progress() as progress:
        output.data(str(write_connect_jar(folder, progress)))


def _parse_services(only: list[str] | None) -> "list[Service] | None":
    from cdc.core.errors import ConfigurationError
    from cdc.local.services import Service

    unknown = [name for name in only or () if name not in list(Service)]
    if unknown:
        raise ConfigurationError(f"there is no part {unknown[0]}", f"one of {', '.join(Service)}")
    # None stands for all parts: an empty list would stand for no part
    return [Service(name) for name in only] if only else None

"""`cdc status`: prints the state of all parts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.run.kept_views import ViewDescription
    from cdc.run.status.status import FollowerState, Status

NOT_COUNTED = "not counted"


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    context: typer.Context,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count rows where it takes long, too: tables above a million, latest logs.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how everything stands: positions, lags, connector.

    Asks the parts themselves, without Spark. Prints every problem; the exit code is that of the first one.
    """
    invocation = Invocation.read(context)
    from cdc.run.status.collector import StatusCollector

    with invocation.open_pipeline() as pipeline:
        collected = StatusCollector(pipeline, exact=exact).collect()
    if json:
        output.as_json(collected.as_json())
    else:
        _print(collected)
    # after the output: a status with problems is still shown
    if collected.problems:
        raise typer.Exit(collected.exit_code)


def _print(status: "Status") -> None:
    _print_capture(status)
    output.data("")
    followers = status.followers.values()
    states = {table: state.name for table, state in status.states.items()}
    rows = [
        (
            table,
            output.Instead("not known") if count is None else count,
            *(_to_cell(table, follower) for follower in followers),
            states.get(table, "not known"),
        )
        for table, count in status.source_rows.items()
    ]
    output.table(("rows of", "source", *status.followers, "state"), rows)
    # on stderr, so that the table can be piped
    if any(follower.not_counted for follower in followers):
        output.say(f"{NOT_COUNTED}: every row would have to be read; `cdc status --exact` does")
    if status.views:
        output.data("")
        output.table(("view", "rows", "at", "state"), [_to_view_row(view) for view in status.views])
    output.data("")
    columns = ("follower", "at", "is", "changes", "bytes", "seconds")
    output.table(columns, [_to_row(name, state) for name, state in status.followers.items()])
    for note in status.notes:
        output.say(f"note: {note}")
    for problem in status.problems:
        output.say(f"problem: {problem}")


def _print_capture(status: "Status") -> None:
    from cdc.core.position import format_lsn

    log = status.log_end
    output.fields(
        {
            "source": f"at {format_lsn(status.source_lsn)}" if status.source_lsn is not None else "does not answer",
            "slot": _describe_slot(status),
            "connector": _describe_connector(status),
            "log": f"at {format_lsn(log.lsn)}{_describe_age(status.log_age)}" if log else "no transaction seen",
            "lake writes": _describe_writes(status.lake_writes),
        }
    )


def _describe_slot(status: "Status") -> str:
    from cdc.core.position import format_lsn

    slot = status.slot
    if slot is None:
        # a source that does not answer says nothing of its slots
        return "not known" if status.source_lsn is None else "missing"
    reader = "" if slot.active else ", nobody reads it"
    kept = f"{slot.retained_bytes:,} bytes retained, {slot.wal_status}"
    return f"{slot.name} at {format_lsn(slot.confirmed_lsn or 0)}, {kept}{reader}"


def _describe_connector(status: "Status") -> str:
    connector = status.connector
    if connector is None:
        return "- not known, tasks none"
    return f"{connector.name} {connector.state}, tasks {', '.join(connector.tasks) or 'none'}"


def _describe_writes(hourly: Mapping[str, int] | None) -> str:
    """The cost of keeping the lake fresh, at the present rate."""
    if hourly is None:
        return "not known"
    requests = f", {hourly['requests']:,} requests" if "requests" in hourly else ""
    written = f"{hourly['commits']:,} commits, {hourly['files']:,} files, {hourly['bytes'] / 2**20:,.0f} MiB"
    return f"{written}{requests} an hour, kept for retention_hours"


def _describe_age(seconds: float | None) -> str:
    from cdc.run.health.result import format_duration

    return "" if seconds is None else f", newest commit {format_duration(seconds)} ago"


def _to_view_row(view: "ViewDescription") -> tuple[object, ...]:
    from cdc.core.position import format_lsn

    return str(view.name), view.rows, format_lsn(view.lsn) if view.lsn is not None else None, view.state


def _to_cell(table: str, follower: "FollowerState") -> object:
    """The number of rows, or why there is none."""
    if table in follower.not_counted:
        return output.Instead(NOT_COUNTED)
    count = follower.rows.get(table)
    if count is not None:
        return count
    if follower.problem:
        return output.Instead("not known")
    # a follower lists the tables that it is to hold, with None before their copy
    return output.Instead("none yet" if table in follower.rows else "left out")


def _to_row(name: str, state: "FollowerState") -> tuple[object, ...]:
    from cdc.core.position import format_lsn

    if state.position is None:
        return name, None, "not known" if state.problem else "not filled yet", None, None, None
    lag = state.lag
    if lag is None:
        return name, format_lsn(state.position.lsn), "not known", None, None, None
    # nobody knows the changes that the log does not have yet
    state_text = "caught up" if lag.is_caught_up else "behind by" if lag.changes else "where the log ends, behind by"
    changes = lag.changes if lag.changes or lag.is_caught_up else output.Instead("?")
    return name, format_lsn(state.position.lsn), state_text, changes, lag.bytes, round(lag.seconds, 1)

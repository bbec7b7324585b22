"""`cdc status`: how everything stands."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.run.status.status import FollowerState, Status

NOT_COUNTED = "not counted"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("status")(status)


def status(
    context: typer.Context,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count rows where it takes long, too: tables above a million, latest logs.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how everything stands: positions, lags, connector.

    Asked of the parts themselves, without Spark. Where something is wrong, it is said, and the exit code is that of the
    first problem.
    """
    settings = Invocation.of(context).settings
    from cdc.run.pipeline import fed_followers
    from cdc.run.status.collector import StatusCollector

    found = StatusCollector(settings, lambda: fed_followers(None, settings), exact=exact).collect()
    if json:
        output.as_json(found.as_json())
    else:
        _show(found)
    if found.problems:
        raise typer.Exit(found.exit_code)


def _show(found: "Status") -> None:
    from cdc.core.position import format_lsn

    connector = found.connector or {"name": "-", "state": "not known", "tasks": []}
    slot, log = found.slot, found.log_end
    output.fields(
        {
            "source": f"at {format_lsn(found.source_lsn)}" if found.source_lsn is not None else "does not answer",
            "slot": f"{slot.name} at {format_lsn(slot.confirmed_lsn or 0)}, {slot.retained_bytes:,} bytes retained,"
            f" {slot.wal_status}{'' if slot.active else ', nobody reads it'}"
            if slot
            else ("not known" if found.source_lsn is None else "missing"),
            "connector": f"{connector['name']} {connector['state']}, tasks {', '.join(connector['tasks']) or 'none'}",
            "log": f"at {format_lsn(log.lsn)}{_age(found.log_age)}" if log else "no transaction seen",
            "lake writes": _writes(found.lake_writes),
        }
    )
    output.data("")
    followers = found.followers.values()
    rows = [
        (table, count, *(_count(table, follower) for follower in followers))
        for table, count in found.source_rows.items()
    ]
    output.table(("rows of", "source", *found.followers), rows)
    if any(follower.not_counted for follower in followers):
        output.say(f"{NOT_COUNTED}: every row would have to be read; `cdc status --exact` does")
    output.data("")
    columns = ("follower", "at", "is", "changes", "bytes", "seconds")
    output.table(columns, [_follower(name, state) for name, state in found.followers.items()])
    for problem in found.problems:
        output.say(f"problem: {problem}")


def _writes(hourly: Mapping[str, int] | None) -> str:
    """What keeping the lake fresh costs now."""
    if hourly is None:
        return "not known"
    requests = f", {hourly['requests']:,} requests" if "requests" in hourly else ""
    written = f"{hourly['commits']:,} commits, {hourly['files']:,} files, {hourly['bytes'] / 2**20:,.0f} MiB"
    return f"{written}{requests} an hour, kept for history_hours"


def _age(seconds: float | None) -> str:
    from connect.capture.progress import lasting

    return "" if seconds is None else f", newest commit {lasting(seconds)} ago"


def _count(table: str, follower: "FollowerState") -> object:
    """How many rows, or why no number stands there."""
    if table in follower.not_counted:
        return output.Instead(NOT_COUNTED)
    count = follower.rows.get(table)
    if count is not None:
        return count
    if follower.problem:
        return output.Instead("not known")
    return output.Instead("none yet" if table in follower.rows else "left out")


def _follower(name: str, state: "FollowerState") -> tuple[object, ...]:
    from cdc.core.position import format_lsn

    if state.position is None:
        return name, None, "not known" if state.problem else "not filled yet", None, None, None
    lag = state.lag
    if lag is None:
        return name, format_lsn(state.position.lsn), "not known", None, None, None
    # where the log itself is behind, nobody knows what it does not have yet
    told = "caught up" if lag.is_caught_up else "behind by" if lag.changes else "where the log ends, behind by"
    changes = lag.changes if lag.changes or lag.is_caught_up else output.Instead("?")
    return name, format_lsn(state.position.lsn), told, changes, lag.bytes, round(lag.seconds, 1)

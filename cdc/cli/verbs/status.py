"""`cdc status`: prints the status document, made by one look at all parts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.run.status.document import Document, StatusProblem
    from cdc.run.status.things import FollowerStatus, Part, TableStatus, Verification, View, Writes

NOT_COUNTED = "not counted"
NO_NUMBERS: Final = (None, None, None)


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    context: typer.Context,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count rows where it takes long, too: tables above a million, latest logs.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print the verdict alone; exit 0 well, 1 to know, 2 now, 3 not known.")
    ] = False,
    json: Json = False,
) -> None:
    """Show how everything stands: positions, lags, connector.

    Asks the parts themselves, without Spark. Prints every problem; the exit code is that of the first one, or with
    --check the one that monitors expect.
    """
    invocation = Invocation.read(context)
    from cdc.run.status.document import to_builtins
    from cdc.run.status.judging.verdict import check_code
    from cdc.run.status.watch import look_once

    with invocation.open_pipeline() as pipeline:
        document = look_once(pipeline, invocation.config, exact=exact)
    if json:
        output.as_json(to_builtins(document))
    elif check:
        output.data(describe_verdict(document))
    else:
        _print(document)
    # after the output: a status with problems is still shown
    if code := check_code(document.verdict) if check else document.exit_code:
        raise typer.Exit(code)


def describe_verdict(document: "Document") -> str:
    """The verdict on one line: level, title and detail, with the time left in its place."""
    from cdc.run.health.result import format_duration

    verdict = document.verdict
    left = (verdict.deadline - document.at).total_seconds() if verdict.deadline else 0.0
    title = verdict.title.replace("{left}", format_duration(left))
    return f"{verdict.level.upper()}: {title}{verdict.detail and f'. {verdict.detail}'}"


def describe_problem(problem: "StatusProblem", document: "Document") -> str:
    """A problem on one line, with the time left in its place."""
    from cdc.run.health.result import format_duration

    if problem.deadline is None:
        return str(problem)
    left = format_duration((problem.deadline - document.at).total_seconds())
    return f"{problem.what.replace('{left}', left)}: {problem}"


def _print(document: "Document") -> None:
    output.data(describe_verdict(document))
    output.data("")
    output.fields(dict(describe_parts(document)))
    output.data("")
    names, tables = list(document.followers), document.tables.items()
    rows = [
        (
            table,
            output.Instead("not known") if found.rows is None else found.rows,
            *(_to_cell(found, name, follower) for name, follower in document.followers.items()),
            describe_table(found),
        )
        for table, found in tables
    ]
    output.table(("rows of", "source", *names, "state"), rows)
    # on stderr, so that the table can be piped
    if any(found.not_counted for found in document.tables.values()):
        output.say(f"{NOT_COUNTED}: every row would have to be read; `cdc status --exact` does")
    if document.views:
        output.data("")
        output.table(("view", "rows", "at", "state"), [_to_view_row(*item) for item in document.views.items()])
    output.data("")
    columns = ("follower", "at", "is", "changes", "bytes", "seconds")
    output.table(columns, [to_follower_row(*item) for item in document.followers.items()])
    if document.verifications:
        output.data("")
        head = ("verified", "verdict", "tables", "rows", "differing keys", "moved keys", "oldest")
        output.table(head, [_to_verified_row(*item, document) for item in document.verifications.items()])
    for note in document.notes:
        output.say(f"note: {note}")
    for problem in document.problems.values():
        output.say(f"problem: {describe_problem(problem, document)}")


def describe_parts(document: "Document") -> Iterator[tuple[str, str]]:
    """Each part of the path in words, the slot behind the capture."""
    for name, part in document.parts.items():
        yield name, _describe_part(part)
        if name == "capture":
            yield "slot", _describe_slot(document)
    yield "lake writes", _describe_writes(document.lake_writes)


def _describe_part(part: "Part") -> str:
    at = next((f", at {fact.value}" for fact in part.facts if fact.name == "at"), "")
    cause = ", and what is behind it waits" if part.is_cause else ""
    return f"{part.name} {part.word}{at}{part.line and f', {part.line}'}{cause}"


def _describe_slot(document: "Document") -> str:
    from cdc.core.text.plural import format_bytes
    from cdc.run.health.result import format_duration

    slot = document.slot
    # a source that does not answer says nothing of its slots
    if slot is None or slot.retained_bytes is None:
        return "not known" if slot is None else "missing"
    limit = f" of {slot.limit_bytes:,}" if slot.limit_bytes is not None else ""
    reader = "" if slot.active else ", nobody reads it"
    full = f", full in {format_duration(slot.full_in_seconds)}" if slot.full_in_seconds is not None else ""
    grows = f", {format_bytes(slot.bytes_per_second)} more a second" if slot.bytes_per_second else ""
    held = f", held by {slot.held_by}" if slot.held_by else ""
    kept = f"{slot.retained_bytes:,}{limit} bytes retained, {slot.wal_status}"
    return f"{slot.name} at {slot.confirmed_lsn or '-'}, {kept}{reader}{grows}{full}{held}"


def _describe_writes(hourly: "Writes | None") -> str:
    """The cost of keeping the lake fresh, at the present rate."""
    if hourly is None:
        return "not known"
    requests = f", {hourly.requests:,} requests" if hourly.requests is not None else ""
    written = f"{hourly.commits:,} commits, {hourly.files:,} files, {hourly.bytes / 2**20:,.0f} MiB"
    return f"{written}{requests} an hour, kept for retention_hours"


def describe_table(table: "TableStatus") -> str:
    """The state of a table; of one that is copied, how far that is."""
    from cdc.run.health.result import format_duration

    copy = table.copy
    if copy is None:
        return "not known" if table.state == "unknown" else table.state
    # an estimate: never 100 before the copy has joined
    share = f" about {min(100 * (copy.done_rows or 0) // copy.all_rows, 99)} %" if copy.all_rows else ""
    left = f", {format_duration(copy.seconds_left)} left" if copy.seconds_left is not None else ""
    return f"{table.state}{share}{left}"


def _to_view_row(name: str, view: "View") -> tuple[object, ...]:
    return name, view.rows, view.lsn, view.word


def _to_verified_row(name: str, found: "Verification", document: "Document") -> tuple[object, ...]:
    """What is known of a follower's comparison with the source; its age is that of the table that waits longest."""
    from cdc.run.health.result import format_duration

    oldest = found.oldest_at or (None if found.by_table else found.at)
    age = f"{format_duration((document.at - oldest).total_seconds())} ago" if oldest else output.Instead("not all yet")
    return name, found.verdict, f"{found.tables} of {found.of}", found.rows, found.keys, found.moved, age


def _to_cell(table: "TableStatus", name: str, follower: "FollowerStatus") -> object:
    """The number of rows, or why there is none."""
    if name in table.not_counted:
        return output.Instead(NOT_COUNTED)
    count = table.rows_in.get(name)
    if count is not None:
        return count
    if follower.state in ("silent", "failed", "unknown", "stopped") and not table.holders:
        return output.Instead("not known")
    # a follower lists the tables that it is to hold, with None before their copy
    if name not in table.holders:
        return output.Instead("left out")
    return output.Instead("not known" if follower.why or follower.state == "unknown" else "none yet")


def to_follower_row(name: str, follower: "FollowerStatus") -> tuple[object, ...]:
    """A follower's position, and how far it is behind, in numbers where they are known."""
    if follower.lsn is None:
        return name, None, follower.word, *NO_NUMBERS
    if follower.is_caught_up is None or follower.behind_seconds is None:
        return name, follower.lsn, follower.word, *NO_NUMBERS
    changes: object = follower.changes_waiting
    word = "caught up" if follower.is_caught_up else "behind by"
    if not changes and not follower.is_caught_up:
        # nobody knows the changes that the log does not have yet
        word, changes = "where the log ends, behind by", output.Instead("?")
    return name, follower.lsn, word, changes, follower.bytes_waiting, round(follower.behind_seconds, 1)

"""`cdc bootstrap`, `cdc follow`, `cdc submit`, `cdc verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_tables
from cdc.cli.everyday.table_options import parse_tables
from cdc.cli.invocation import Invocation
from cdc.cli.log_lines import LogFormat, begin_log
from cdc.cli.options import Json, OnlyFollowers, OnlyTables
from cdc.cli.progress import open_progress

if TYPE_CHECKING:
    from cdc.run.verify.chains import ChainVerdict
    from cdc.run.verify.report import Report


def register(app: typer.Typer) -> None:
    app.command("bootstrap")(bootstrap)
    app.command("follow")(follow)
    app.command("verify")(verify)
    app.command("submit")(submit)


def bootstrap(
    context: typer.Context,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again", help="A table to copy once more, as it is now; repeat for more.", autocompletion=complete_tables
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Start capture, and take the first copy into the followers.

    Everything is checked before anything is made. Safe to run again: it goes on where it was, and copies tables listed
    since. A table that is no longer listed in source.tables is not followed any more; followers keep its rows.
    """
    invocation = Invocation.read(context)
    from cdc.core.position import format_lsn
    from cdc.run.copy.bootstrap import bootstrap as run
    from cdc.run.spark.errors import translate_errors

    # before Spark starts: a wrong name is told at once
    tables = parse_tables(invocation, "--again", again or ())
    with (
        open_progress() as progress,
        translate_errors("the bootstrap"),
        invocation.open_pipeline("bootstrap") as pipeline,
    ):
        outcome = run(pipeline, output.say, progress, tables)
    if json:
        output.as_json(
            {
                "changed": outcome.has_changed or outcome.has_started,
                "tables": {
                    str(name): {"lsn": format_lsn(mark.lsn), "copied_rows": outcome.copied.get(name)}
                    for name, mark in outcome.bookmarks.items()
                },
                "views": [str(view) for view in outcome.filled],
                "loaded": {name: [str(table) for table in tables] for name, tables in outcome.loaded.items()},
            }
        )
    elif not outcome.has_changed:
        also = "" if outcome.has_started else "; nothing was changed"
        output.say(f"every table has its copy already{also}")
    else:
        rows = [(name, outcome.copied.get(name), format_lsn(mark.lsn)) for name, mark in outcome.bookmarks.items()]
        output.table(("table", "copied rows", "bookmark"), rows)
        for view in outcome.filled:
            output.say(f"view {view} is filled")


def follow(
    context: typer.Context,
    follower: OnlyFollowers = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when the followers have all present data of the source.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How lines are written to stderr, each with time and level.")
    ] = LogFormat.TEXT,
    metrics: Annotated[
        int | None, typer.Option("--metrics", min=0, max=65535, help="Serve metrics on this port of 127.0.0.1.")
    ] = None,
) -> None:
    """Keep the followers in sync, one stream each, until Ctrl-C.

    If a server goes away, it retries. Kill it at any time and start it again: nothing is lost or doubled.
    """
    invocation = Invocation.read(context)
    begin_log(log_format, Path(invocation.settings.pipeline.state) / "logs")
    from cdc.run.follow.follow import follow as run
    from cdc.run.metrics.serving import watch_and_tell
    from cdc.run.pipeline import select_followers
    from cdc.run.spark.errors import translate_errors

    names = select_followers(invocation.settings, follower or [])
    with (
        translate_errors("following"),
        invocation.open_pipeline("follow") as pipeline,
        watch_and_tell(pipeline, metrics, output.say),
    ):
        run(pipeline, names, output.say, until_caught_up=until_caught_up)


def submit(
    context: typer.Context,
    master: Annotated[str | None, typer.Option(help="The cluster; spark.master where left out.")] = None,
    follower: OnlyFollowers = None,
    until_caught_up: Annotated[bool, typer.Option("--until-caught-up", help="As `cdc follow` has it.")] = False,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="As `cdc follow` has it.")] = LogFormat.TEXT,
    print_only: Annotated[bool, typer.Option("--print", help="Print the command and do nothing.")] = False,
) -> None:
    """Run `cdc follow` through spark-submit, on any master.

    The driver runs here; the workers must reach the log, the lake and the index.
    """
    invocation = Invocation.of(context)
    settings = invocation.settings
    import shlex

    from cdc.run.pipeline import select_followers
    from cdc.run.submit import Submission, write_command
    from cdc.run.submit import submit as run

    names = select_followers(settings, follower or [])
    # absolute: spark-submit may start the driver in another folder
    arguments = ["--config", str(invocation.config.absolute()), "follow", *(f"--follower={name}" for name in names)]
    arguments += [*(["--until-caught-up"] if until_caught_up else []), f"--log-format={log_format.value}"]
    state, job = Path(settings.pipeline.state), Submission.of(settings, master or settings.spark.master, arguments)
    if print_only:
        output.data(shlex.join(write_command(state, job)))
        return
    # the job's exit code is ours, so a script sees no difference to `cdc follow`
    raise typer.Exit(run(state, job))


def verify(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    follower: OnlyFollowers = None,
    table: OnlyTables = None,
    wait: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for followers to reach the source; else 120, if they are followed here."),
    ] = None,
    keys: Annotated[int, typer.Option(help="At most so many differing keys are named, a table.")] = 20,
    chain: Annotated[bool, typer.Option("--chain", help="Check the chains of histories, and nothing else.")] = False,
    json: Json = False,
) -> None:
    """Compare source and followers row by row, at one LSN.

    Waits for a follower that is behind, while somebody follows it. Exit code 5 when rows differ, or a chain is broken.
    """
    invocation = Invocation.read(context)
    if chain:
        _verify_chains(invocation, json=json)
        return
    from cdc.run.pipeline import select_followers
    from cdc.run.spark.errors import translate_errors
    from cdc.run.verify.verify import verify as run

    names = select_followers(invocation.settings, follower or [])
    tables = parse_tables(invocation, "--table", table or ())
    with translate_errors("the comparison"), invocation.open_pipeline("verify") as pipeline:
        report = run(pipeline, names, wait, keys, tables)
    if json:
        output.as_json(report.as_json())
    else:
        show_report(report)
    report.check_equal()


def _verify_chains(invocation: Invocation, *, json: bool) -> None:
    from cdc.core.errors import ConfigurationError, DivergenceError, PreconditionError
    from cdc.run.verify.chains import check_chains

    if not invocation.settings.histories:
        raise ConfigurationError("no history is kept", "name tables in `history:` of cdc.yaml")
    with invocation.open_pipeline("verify") as pipeline:
        verdicts = check_chains(pipeline)
    if json:
        output.as_json([verdict.as_json() for verdict in verdicts])
    else:
        states = [_describe_chain(each) for each in verdicts]
        rows = [(str(v.history), v.batches, state, v.end) for v, state in zip(verdicts, states, strict=True)]
        output.table(("history", "batches", "chain", "its end"), rows)
    failed = sorted((each for each in verdicts if not each.is_whole), key=lambda each: not each.has_begun)
    for further in failed[1:]:
        output.warn(str(further))
    if failed and not failed[0].has_begun:
        raise PreconditionError(str(failed[0]), "run `cdc bootstrap`, then `cdc follow`; see `cdc status`")
    if failed:
        remedy = "compare that batch (`_batch`) with a backup"
        raise DivergenceError(str(failed[0]), "put it back as it was" if failed[0].unreadable else remedy)


def _describe_chain(verdict: "ChainVerdict") -> str:
    if verdict.unreadable:
        return "cannot be read"
    whole = f"whole but for {verdict.erased} erased rows" if verdict.erased else "whole"
    return whole if verdict.broken is None else f"broken at {verdict.broken}"


def show_report(report: "Report") -> None:
    """Print one line per table, then the keys that differ."""
    counts = ("source_rows", "follower_rows", "missing", "extra", "differing", "twice")
    rows = []
    for name, tables in report.followers.items():
        for table, verdict in tables.items():
            fields = verdict.as_json()
            rows.append((name, table, fields["verdict"], *(fields.get(count) for count in counts)))
    output.table(("follower", "table", "verdict", "source", "follower", "missing", "extra", "differing", "twice"), rows)
    # on stderr: the table above is the result
    for reason in (*report.stopped.values(), *report.incomparable.values(), *report.follower_stops):
        output.warn(str(reason))
    for name, tables in report.followers.items():
        for table, verdict in tables.items():
            for key in verdict.comparison.keys if verdict.comparison else ():
                output.data(f"{name} {table} {key.kind} {key.key} {' '.join(key.columns)}".rstrip())

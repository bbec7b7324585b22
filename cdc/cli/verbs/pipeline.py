"""`cdc bootstrap`, `cdc follow`, `cdc submit`."""

from pathlib import Path
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.completion import complete_tables
from cdc.cli.everyday.table_options import parse_tables
from cdc.cli.invocation import Invocation
from cdc.cli.log_lines import LogFormat, begin_log
from cdc.cli.options import Json, OnlyFollowers
from cdc.cli.progress import open_progress


def register(app: typer.Typer) -> None:
    app.command("bootstrap")(bootstrap)
    app.command("follow")(follow)
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
    from cdc.run.spark.allocator import limit_arenas

    # first: what is imported below begins threads
    limit_arenas()
    invocation = Invocation.read(context)
    begin_log(log_format, Path(invocation.settings.pipeline.state) / "logs")
    # Spark takes five seconds of one core, and the imports below four of another
    with invocation.starting_spark("follow"):
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

"""`cdc pause`, `cdc resume`, `cdc restart`: of the capture, or of a follower."""

import getpass
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="`capture`, a follower's name, or `views`.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do and cost, and do nothing.")]


def register(app: typer.Typer) -> None:
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("restart")(restart)


def pause(context: typer.Context, names: Names, dry_run: DryRun = False, json: Json = False) -> None:
    """Let the capture or a follower rest.

    A paused follower stays paused when `cdc follow` ends and starts again, until `cdc resume`.
    """
    _run(context, "pause", names, dry_run=dry_run, json=json)


def resume(context: typer.Context, names: Names, dry_run: DryRun = False, json: Json = False) -> None:
    """Let the capture or a follower go on that is paused."""
    _run(context, "resume", names, dry_run=dry_run, json=json)


def restart(context: typer.Context, names: Names, dry_run: DryRun = False, json: Json = False) -> None:
    """Start the capture, or a follower's stream, anew.

    It goes on where it was. Of the capture: its connector with all tasks, failed ones, too.
    """
    _run(context, "restart", names, dry_run=dry_run, json=json)


def _run(context: typer.Context, verb: str, names: list[str], *, dry_run: bool, json: bool) -> None:
    invocation = Invocation.read(context)
    from cdc.run.control.control import act, ask
    from cdc.run.control.question import ControlVerb

    asked, answers = ControlVerb(verb), []
    with invocation.open_pipeline() as pipeline:
        # all questions first: a wrong name does nothing
        questions = [ask(pipeline, asked, name) for name in names]
        for question in questions:
            for line in question.lines:
                output.say(line)
            if question.refused and not dry_run:
                raise question.refused
            done = None if dry_run else act(pipeline, asked, question.on, _read_user())
            answers.append({**question.as_json(), "done": done})
            if done and not json:
                output.data(done)
    if json:
        output.as_json(answers)


def _read_user() -> str:
    try:
        return getpass.getuser()
    # of a user id without a name
    except (KeyError, OSError):
        return "somebody here"

"""Runs a verb of the command line: global options, one line per error, exit codes.

A verb is a function in a module with `register(app)`, listed in `cdc/__main__.py`. It imports heavy packages in its
body, after it has read the configuration: so `cdc --help`, and errors in the file, are shown at once.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import DEFAULT_CONFIG, Invocation
from cdc.cli.log_lines import end_log
from cdc.cli.privacy import keep_private
from cdc.core import fail_points
from cdc.core.errors import CdcError, to_system_error
from cdc.core.text.lines import ErrorLine

Register = Callable[[typer.Typer], None]
"""Adds the verbs of a module."""

OK, UNEXPECTED, USAGE, INTERRUPTED = 0, 1, 2, 130


def run(arguments: Sequence[str], verbs: Iterable[Register]) -> int:
    """Run one command and return its exit code; errors are printed, not raised."""
    # read before parsing, so that it also works for an error in parsing
    debug = "--debug" in arguments
    try:
        fail_points.arm_from(os.environ)
        with keep_private(), _interrupt_on_sigterm():
            code = _invoke(arguments, verbs)
        # raises for a closed pipe here; Python's own flush, at the end of the process, would print a complaint
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _end_quietly()
    except KeyboardInterrupt:
        return _report_interrupt()
    except Exception as error:  # noqa: BLE001
        if debug:
            traceback.print_exception(error)
        return report(error)
    finally:
        end_log()


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, too: by default Python ends at once, without cleaning up."""
    # Python allows handlers in the main thread only
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        # whoever calls `run` as a function, as tests do, keeps its own handler
        signal.signal(signal.SIGTERM, before)


def build(verbs: Iterable[Register]) -> typer.Typer:
    """Build the application with all its verbs."""
    app = typer.Typer(name="cdc", rich_markup_mode=None, pretty_exceptions_enable=False)
    # `--version`, and `cdc` alone, have no verb and are answered there
    app.callback(invoke_without_command=True)(_global_options)
    for register in verbs:
        register(app)
    return app


def report(error: Exception) -> int:
    """Print an error, one line per problem, and return its exit code."""
    error = to_system_error(error) if isinstance(error, OSError) else error
    if isinstance(error, CdcError):
        for line in error.lines:
            output.say(ErrorLine.of(f"error: {_one_line(line)}", error))
        if error.offer:
            output.say(error.offer)
        return error.exit_code
    if isinstance(error, typer.TyperException):
        output.say(ErrorLine(f"error: {_one_line(error.format_message())} → {_help_for(error)}"))
        return USAGE
    # end of input at a question
    if isinstance(error, typer.Abort):
        output.say(ErrorLine("error: no answer → nothing was done"))
        return UNEXPECTED
    # an error without a text is named by its type alone
    text = f"{type(error).__name__}: {_one_line(error)}".rstrip(": ")
    output.say(ErrorLine(f"error: unexpected, a bug of cdc or a case it does not know: {text}"))
    output.say("run with --debug for the traceback")
    return UNEXPECTED


def _invoke(arguments: Sequence[str], verbs: Iterable[Register]) -> int:
    command = typer.main.get_command(build(verbs))
    try:
        # not standalone: otherwise the library prints errors in its own way, and exits
        code = command.main(args=list(arguments), prog_name="cdc", standalone_mode=False, obj=Invocation())
    except SystemExit as leaving:
        # typer turns a closed pipe into exit code 1, which stands for a bug here
        if isinstance(leaving.__context__, BrokenPipeError):
            raise leaving.__context__ from None
        raise
    # typer turns Ctrl-C into this code
    if code == INTERRUPTED:
        return _report_interrupt()
    return code if isinstance(code, int) else OK


def _global_options(
    context: typer.Context,
    config: Annotated[
        Path, typer.Option("--config", "-c", envvar="CDC_CONFIG", help="The configuration file.")
    ] = DEFAULT_CONFIG,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Postgres to Delta tables, a search index and a compacted log, in commit order.

    `cdc demo` shows all of it. With a Postgres of your own: `cdc init`, `cdc bootstrap`, `cdc follow`.
    """
    if version:
        from cdc.cli.verbs.configuration import read_version

        output.data(f"cdc {read_version('cdc-toolkit')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        output.data(context.get_help())
        raise typer.Exit
    # `debug` is here for --help: `run` reads it before parsing
    Invocation.of(context).config = config


def _help_for(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"run `{context.command_path if context else 'cdc'} --help`"


def _report_interrupt() -> int:
    output.say("interrupted")
    return INTERRUPTED


def _end_quietly() -> int:
    """End after the reader of stdout has gone: output that Python flushes later goes to the null device.

    (Python manual, signal, "Note on SIGPIPE")
    """
    # by the descriptor: closing stdout would make Python's last flush fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _one_line(text: object) -> str:
    return " ".join(str(text).split())

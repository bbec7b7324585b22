"""`cdc verify`: followers compared with the source, once or for ever; and the chains of histories."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.cli import output
from cdc.cli.everyday.table_options import parse_tables
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json, OnlyFollowers, OnlyTables

if TYPE_CHECKING:
    from cdc.run.verify.chains import ChainVerdict
    from cdc.run.verify.report import Report

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


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
    every: Annotated[
        str | None,
        typer.Option(help="Compare for ever, each table once in this time: 1h, say, or 30m, 90s, 1d. Without Spark."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare source and followers row by row, at one LSN.

    Waits for a follower that is behind, while somebody follows it. Exit code 5 when rows differ, or a chain is broken.
    """
    from cdc.run.spark.gc_tuning import relax_gc

    # before the imports, which leave no garbage either
    relax_gc()
    invocation = Invocation.read(context)
    if chain:
        _refuse_others(context, "chain", "json")
        _verify_chains(invocation, json=json)
        return
    if every is not None:
        _refuse_others(context, "every", "follower")
        _verify_for_ever(invocation, parse_period(every), follower or [])
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


def parse_period(text: str) -> float:
    """Seconds of `90s`, `30m`, `1h` or `1d`; raises ConfigurationError for another text."""
    from cdc.config.verify_settings import LEAST_SECONDS
    from cdc.core.errors import ConfigurationError

    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text.strip())
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if seconds < LEAST_SECONDS:
        raise ConfigurationError(
            f"--every {text} is no time of {LEAST_SECONDS} s or more", "write it as 90s, 30m or 1h"
        )
    return float(seconds)


def _refuse_others(context: typer.Context, option: str, taken: str) -> None:
    """Raise ConfigurationError when an option was given that the way of `option` does not take: it takes one other."""
    from cdc.core.errors import ConfigurationError

    # the name alone tells: what a value means is the verb's matter, and 0 and the default are values, too
    given = [name for name in context.params if _is_given(context, name) and name not in {option, taken}]
    if given:
        named = ", ".join(f"--{name}" for name in sorted(given))
        raise ConfigurationError(f"--{option} goes with --{taken} only, not with {named}", f"leave {named} out")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _verify_for_ever(invocation: Invocation, every: float, follower: list[str]) -> None:
    import threading

    from cdc.run.pipeline import select_followers
    from cdc.run.shutdown import stop_on_signals
    from cdc.run.verify.rolling.keep_verifying import open_rolling

    names, stopping = select_followers(invocation.settings, follower), threading.Event()
    with invocation.open_pipeline("verify") as pipeline, stop_on_signals(stopping, output.say):
        open_rolling(pipeline, names, output.say, stopping, every).run()


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

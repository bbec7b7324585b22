"""`cdc doctor`: everything that keeps a pipeline from working, or some day will, with what helps."""

from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli import output
from cdc.cli.invocation import Invocation
from cdc.cli.options import Json

if TYPE_CHECKING:
    from cdc.run.doctor.runner import Diagnosis


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(  # noqa: PLR0913, PLR0917 - each is an option of the verb
    context: typer.Context,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A check or a category, such as postgres; repeat for more.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="A category, such as postgres; repeat for more.")
    ] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Show notes, too.")] = False,
    fix_sql: Annotated[
        bool, typer.Option("--fix-sql", help="Print the SQL for the source's administrator instead.")
    ] = False,
    role_sql: Annotated[
        bool, typer.Option("--role-sql", help="Print the SQL of a role with the least rights instead.")
    ] = False,
    json: Json = False,
) -> None:
    """Find what is wrong with every part, and what helps. Changes nothing.

    The exit code is that of the first error; with warnings and notes alone it is 0.
    """
    invocation = Invocation.read(context)
    from cdc.core.errors import ConfigurationError
    from cdc.run.doctor.check import registered_checks
    from cdc.run.doctor.checks import CATEGORIES
    from cdc.run.doctor.doctor import Doctor

    names = {*CATEGORIES, *(check.name for check in registered_checks())}
    told = f"the categories are {', '.join(CATEGORIES)}"
    if unknown := [name for name in category or () if name not in CATEGORIES]:
        raise ConfigurationError(f"there is no category {unknown[0]}", told)
    if unknown := [name for name in only or () if name not in names]:
        raise ConfigurationError(f"there is no check and no category {unknown[0]}", f"{told}; DOCTOR.md has the checks")
    with invocation.open_pipeline() as pipeline:
        examined = Doctor(pipeline)
        if role_sql:
            output.data("\n".join(examined.write_role()))
            return
        found = examined.examine([*(only or ()), *(category or ())])
        if fix_sql:
            output.data("\n".join(examined.write_fixes(found)))
        elif json:
            output.as_json(found.as_json())
        else:
            _print(found, notes=notes)
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def _print(found: "Diagnosis", *, notes: bool) -> None:
    from cdc.core.text.plural import format_count
    from cdc.run.doctor.check import Severity

    shown = [*found.of(Severity.ERROR), *found.of(Severity.WARNING), *(found.of(Severity.NOTE) if notes else ())]
    for finding in shown:
        problem = finding.problem
        output.data(f"{finding.severity}: {finding.check}: {problem.object}: {problem.what}")
        output.data(f"  why: {finding.why}")
        output.data(f"  → {problem.remedy}")
    counts = {severity: len(found.of(severity)) for severity in Severity}
    told = ", ".join(
        format_count(count, severity) for severity, count in counts.items() if count and severity != "note"
    )
    more = f"; {format_count(counts[Severity.NOTE], 'note')}: --notes" if counts[Severity.NOTE] and not notes else ""
    output.data(f"{format_count(found.checks, 'check')}: {told or 'all is well'}{more}")

"""`cdc lab`: lists the labs, or runs one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import Json
from cdc.cli.verbs.services import local_home

if TYPE_CHECKING:
    from cdc.lab.lesson import Findings
    from cdc.lab.registry import Lab


def register(app: typer.Typer) -> None:
    app.command("lab")(lab)


def lab(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A lab; without it, all are listed.")] = None,
    json: Json = False,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the run into this file.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed plans the same events.")] = 2017,
) -> None:
    """Watch an idea about streams fail, and how it is mended.

    Each lab shows one idea of "Designing Data-Intensive Applications" on the local parts, within a minute.
    """
    from cdc.lab.registry import find_lab

    if name is None:
        _list_labs(json=json, svg=svg)
        return
    found = find_lab(name)
    # before the lab, which takes a while
    _require_writable(svg)
    # first: it says which packages are missing
    found.load()
    from cdc.lab.run import run_lab

    findings, seconds = run_lab(local_home(context), found, seed)
    if json:
        output.as_json(_as_json(found, seed, findings, seconds))
    else:
        _show(found, findings, seconds)
    if svg:
        _write(svg, findings.figure.draw())


def _list_labs(*, json: bool, svg: Path | None) -> None:
    from cdc.core.errors import ConfigurationError
    from cdc.lab.registry import LABS

    if svg:
        raise ConfigurationError("--svg draws a run of one lab, and none is named", "cdc lab NAME --svg FILE")
    if json:
        output.as_json([{"lab": lab.name, "shows": lab.shows} for lab in LABS])
    else:
        output.table(("lab", "shows"), [(lab.name, lab.shows) for lab in LABS])


def _show(lab: "Lab", found: "Findings", seconds: float) -> None:
    output.table(found.columns, found.rows)
    output.data(f"\n{found.sentence}\n")
    for passage in lab.book:
        output.data(f"book  {passage}")
    for file in lab.files:
        output.data(f"code  {file}")
    output.say(f"\nthis took {seconds:.1f} s")


def _as_json(lab: "Lab", seed: int, found: "Findings", seconds: float) -> dict[str, Any]:
    """Everything but the figure; `rows` as objects by column."""
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    told = {"lab": lab.name, "seed": seed, "rows": rows, "sentence": found.sentence}
    return {**told, "book": list(lab.book), "files": list(lab.files), "seconds": round(seconds, 1)}


def _require_writable(file: Path | None) -> None:
    from cdc.core.errors import PreconditionError

    if file and (file.is_dir() or not os.access(file if file.exists() else file.absolute().parent, os.W_OK)):
        raise PreconditionError(f"cannot write {file}", "name a file in a folder that you may write")


def _write(file: Path, text: str) -> None:
    from cdc.core.errors import PreconditionError

    try:
        file.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise PreconditionError(f"cannot write {file}: {failure.strerror}", "choose another file") from failure
    output.say(f"drawn: {output.relative_path(file.absolute())}")

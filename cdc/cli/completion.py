"""Names for a shell's completion: of the configuration file alone, without any network, and quickly.

`cdc --install-completion` sets it up.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from cdc.cli.invocation import DEFAULT_CONFIG

Complete = Callable[[typer.Context, str], list[str]]


def _completing(list_names: Callable[[dict[str, Any]], Iterable[str]]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # whatever is wrong with the file, a shell shows no error here
        try:
            names = list(list_names(_read(ctx)))
        except Exception:  # noqa: BLE001
            return []
        return sorted({name for name in names if name.startswith(incomplete)})

    return complete


def _read(ctx: typer.Context) -> dict[str, Any]:
    """The file's values as they are written: references are not resolved, so no secret is read."""
    from ruamel.yaml import YAML

    path = ctx.find_root().params.get("config") or DEFAULT_CONFIG
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(Path(path).read_text(encoding="utf-8"))
    return found


def _list_followers(values: dict[str, Any]) -> Iterator[str]:
    yield from values["followers"]
    if values.get("views"):
        yield "views"


def _list_tables(values: dict[str, Any]) -> Iterator[str]:
    for entry in map(str, values["source"]["tables"]):
        if "*" not in entry and not entry.startswith("!"):
            yield entry if "." in entry else f"public.{entry}"


def _list_views(values: dict[str, Any]) -> Iterator[str]:
    yield from values.get("views") or ()


complete_followers = _completing(_list_followers)
complete_tables = _completing(_list_tables)
complete_entries = _completing(lambda values: map(str, values["source"]["tables"]))
complete_views = _completing(_list_views)
complete_tables_and_views = _completing(lambda values: [*_list_tables(values), *_list_views(values)])
complete_rebuilt = _completing(lambda values: [*values["followers"], *_list_tables(values), *_list_views(values)])
complete_controlled = _completing(lambda values: ["capture", *_list_followers(values)])

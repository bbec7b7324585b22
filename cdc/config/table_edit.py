"""Edits `source.tables` of a file: the lines of its entries alone, so that comments and blanks stay where they are."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ruamel.yaml.comments import CommentedSeq

from cdc.config.file import check_text, parse_lines, read_text
from cdc.config.findings.table_findings import entry
from cdc.config.init import table_lines
from cdc.core.errors import ConfigurationError, RefusedError
from cdc.core.selection import BUT, Selection
from cdc.core.table import TableName


@dataclass(frozen=True, slots=True)
class TableEdit:
    """An edited text of a file that was read as `before`; `added` and `removed`: entries of `source.tables`."""

    path: Path
    before: str
    text: str
    added: Sequence[str]
    removed: Sequence[str]

    def write(self) -> None:
        """Replace the file in one step. Raises RefusedError when somebody has changed it since it was read."""
        # of a link, the file that it names
        path = self.path.resolve()
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as fresh:
            fresh.write(self.text)
            fresh.flush()
            os.fsync(fresh.fileno())
        try:
            shutil.copymode(path, fresh.name)
            if read_text(path) != self.before:
                raise RefusedError(f"somebody has changed {path} meanwhile", "the same again")
            Path(fresh.name).replace(path)
        finally:
            Path(fresh.name).unlink(missing_ok=True)


def add_tables(path: Path, names: Sequence[str], environ: Mapping[str, str] = os.environ) -> TableEdit:
    """Name these tables or patterns in the file. Raises ConfigurationError for what the file would be refused with."""
    return _edit(path, [entry(name) for name in names], [], environ)


def remove_tables(path: Path, names: Sequence[str], environ: Mapping[str, str] = os.environ) -> TableEdit:
    """Take these tables or patterns out of the file; one that a pattern names is excluded. Raises like `add_tables`."""
    _, found = _find_list(path)
    there = [entry(str(text)) for text in found]
    gone = [name for name in map(entry, names) if name in there]
    kept = Selection.of(text for text in there if text not in gone)
    excluded = [f"{BUT}{name}" for name in map(entry, names) if BUT not in name and TableName.parse(name) in kept]
    if missing := [n for n in map(entry, names) if n not in gone and f"{BUT}{n}" not in excluded]:
        raise ConfigurationError(f"{missing[0]} is none of source.tables", f"the file has {', '.join(there)}")
    return _edit(path, excluded, gone, environ)


def _edit(path: Path, add: Sequence[str], remove: Sequence[str], environ: Mapping[str, str]) -> TableEdit:
    before, found = _find_list(path)
    there = [entry(str(text)) for text in found]
    added = [name for name in dict.fromkeys(add) if name not in there]
    wanted = [*(name for name in there if name not in remove), *added]
    if not wanted:
        raise ConfigurationError("no table would be left", "`cdc teardown` takes the whole pipeline away")
    text = _rewrite(before, found, [there.index(name) for name in remove], added)
    # a layout that these lines do not fit is told, never written
    if [entry(str(each)) for each in _list_of(parse_lines(text, str(path)))] != wanted:
        raise ConfigurationError(
            f"source.tables of {path} is written in a way that cannot be edited", "edit it by hand"
        )
    check_text(text, path, environ)
    return TableEdit(path, before, text, added, list(remove))


def _find_list(path: Path) -> tuple[str, CommentedSeq]:
    text = read_text(path)
    return text, _list_of(parse_lines(text, str(path)))


def _list_of(values: Any) -> CommentedSeq:
    found = values.get("source", {}).get("tables") if hasattr(values, "get") else None
    if not isinstance(found, CommentedSeq):
        raise ConfigurationError("the file has no list source.tables", "`cdc config check` says what is wrong")
    return found


def _rewrite(text: str, found: CommentedSeq, removed: Sequence[int], added: Sequence[str]) -> str:
    lines = text.splitlines(keepends=True)
    if found.fa.flow_style():
        return _rewrite_flow(lines, found, removed, added)
    places = [found.lc.item(number) for number in range(len(found))]
    # the dash, behind which the value begins
    indent = lines[places[-1][0]].index("-")
    new = [f"{line}\n" for line in table_lines(added, indent).splitlines()]
    if not lines[places[-1][0]].endswith("\n"):
        lines[places[-1][0]] += "\n"
    lines[places[-1][0] + 1 : places[-1][0] + 1] = new
    dropped = {places[number][0] for number in removed}
    return "".join(line for number, line in enumerate(lines) if number not in dropped)


def _rewrite_flow(lines: list[str], found: CommentedSeq, removed: Sequence[int], added: Sequence[str]) -> str:
    """Write a list of one line, `[a, b]`, anew."""
    first, column = found.lc.line, found.lc.col
    kept = [str(text) for number, text in enumerate(found) if number not in removed]
    scalars = [line.strip().removeprefix("- ") for line in table_lines([*kept, *added]).splitlines()]
    line = lines[first]
    begin, end = column, line.rindex("]") + 1 if "]" in line else len(line)
    lines[first] = f"{line[:begin]}[{', '.join(scalars)}]{line[end:]}"
    return "".join(lines)

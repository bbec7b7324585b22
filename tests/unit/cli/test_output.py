"""The output of verbs: data and messages apart, whole tables, confirmations."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.cli import output
from cdc.core import errors

Captured = pytest.CaptureFixture[str]


def test_json_is_one_line_with_sorted_keys(capsys: Captured) -> None:
    output.as_json({"b": Path("x"), "a": ["é", None]})
    assert capsys.readouterr().out == '{"a":["é",null],"b":"x"}\n'


def test_tables_are_not_cut_without_a_terminal(capsys: Captured) -> None:
    output.table(["table", "rows"], [["public." + "x" * 200, 5], ["[red]a[/red]", None]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "x" * 200 in lines[1]
    assert lines[2].startswith("[red]a[/red]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answering(answer: str) -> Callable[[], None]:
    def ask() -> None:
        sys.stdin = Terminal(answer)
        output.confirm("Drop it?", yes=False)

    return ask


def test_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    output.confirm("Drop it?", yes=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(errors.RefusedError, match="--yes"):
        output.confirm("Drop it?", yes=False)
    answering("y\n")()
    with pytest.raises(errors.RefusedError, match="not confirmed"):
        answering("n\n")()

"""A shell completes the names of the file, whatever its references are, and says nothing about a wrong one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc.config.init import TemplateValues, template

VIEWS = "views:\n  shop.sums: {key: [id], sql: SELECT 1}\n"


def complete(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    environ = {**os.environ, "_CDC_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words)}
    environ |= {"COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": " ".join(words)}
    code = "import sys; from cdc.__main__ import main; sys.exit(main([]))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("cdc", "pause", ""), ["capture", "lake", "latest", "search", "views"]),
        (("cdc", "follow", "--follower", "la"), ["lake", "latest"]),
        (("cdc", "trace", "public.o"), ["public.orders"]),
        (("cdc", "tables", "remove", ""), ["public.orders", "sales.*"]),
        (("cdc", "--config", "nowhere.yaml", "pause", ""), []),
    ],
)
def test_names_of_the_file(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    text = template(TemplateValues(password="${env:NOT_SET}", tables=("public.orders", "sales.*")))
    (tmp_path / "cdc.yaml").write_text(f"{text}\n{VIEWS}")
    assert complete(tmp_path, *words) == offered

"""CONTRIBUTING names what is there: paths, modules, commands; CI, the hooks and the page have the same checks."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
CI = (ROOT / ".ci" / "run").read_text()
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} | {".github", ".ci"}
TOOLS = {
    "python",
    "python3",
    "pip",
    "prek",
    "pytest",
    "ruff",
    "mypy",
    "lint-imports",
    "codespell",
    "git",
    ".",
    ".ci/run",
}


def blocks() -> list[str]:
    """The lines of the shell blocks."""
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def inline() -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))


def words() -> set[str]:
    return {word for text in [*blocks(), *inline()] for word in shlex.split(text)}


def paths() -> list[str]:
    """What is named as a path: it begins with a folder of ours, or is a file at the top."""
    file = re.compile(r"\.?[\w-]+\.(toml|yaml|md)")
    below = {word for word in words() if "/" in word and "*" not in word and word.split("/")[0] in FOLDERS}
    return sorted(below | {word for word in words() if file.fullmatch(word)})


def checks(text: str) -> list[str]:
    """The checks among the commands of a text, in their order."""
    lines = [line.strip().removeprefix(".venv/bin/") for line in text.splitlines()]
    tools = ("ruff", "mypy", "lint-imports", "codespell", "python -m tests.site")
    return [line for line in lines if line.startswith(tools)]


@pytest.mark.parametrize("path", paths())
def test_a_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_paths_are_found_at_all() -> None:
    assert {
        "cdc/core/follower.py",
        "tests/support/lake/places.py",
        ".pre-commit-config.yaml",
        "pyproject.toml",
    } < set(paths())


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m ([\w.]+)", PAGE))))
def test_a_module_is_there(module: str) -> None:
    assert find_spec(module)


def test_a_command_is_one_that_a_set_up_has() -> None:
    first = {line.split()[0].split("=")[0] for line in blocks()}
    assert {word for word in first if not word.startswith("CDC_TEST_")} <= TOOLS


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"CDC_TEST_[A-Z]+", PAGE))))
def test_a_variable_is_read(variable: str) -> None:
    others = (file for file in (ROOT / "tests").rglob("*.py") if file.name != Path(__file__).name)
    assert any(f'"{variable}"' in file.read_text() for file in others)


def test_ci_hooks_and_page_have_the_same_checks() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = [hook["entry"] for hook in hooks]
    assert entries == checks(CI) == checks("\n".join(blocks()))
    assert len(entries) == 6


def test_no_hook_fetches_a_tool_of_its_own() -> None:
    repos = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}
    assert {hook["language"] for repo in repos for hook in repo["hooks"]} == {"system"}


def test_the_markers_of_the_page_are_known() -> None:
    named = set(re.findall(r'pytest (?:-n \d )?-m "([^"]+)"', PAGE))
    known = {"not", "and", *re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)}
    assert {word for expression in named for word in expression.split()} <= known

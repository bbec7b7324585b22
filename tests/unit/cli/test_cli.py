"""The command line: one line per error, exit codes, data and messages apart, a quick start."""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from cdc.__main__ import main
from cdc.cli import app
from cdc.cli.invocation import Invocation
from cdc.connect.source.catalog import TablesRefusedError
from cdc.core import errors

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_CONFIG", raising=False)
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "canary")
    return tmp_path


def failing(error: BaseException) -> list[app.Register]:
    """One verb, `boom`, that raises."""

    def register(app: typer.Typer) -> None:
        app.command("boom")(boom)

    def boom() -> None:
        """Fail."""
        raise error

    return [register]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.ConfigurationError("a is wrong", "write b"), 2, "error: a is wrong → write b"),
        (errors.PreconditionError("slot\nis gone"), 3, "error: slot is gone"),
        (errors.UnreachableError("no answer"), 4, "error: no answer"),
        (errors.DivergenceError("rows differ"), 5, "error: rows differ"),
        (errors.HistoryLostError("gone", "copy"), 7, "error: gone → copy"),
        (errors.RefusedError("no"), 8, "error: no"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Exit(6), 6, ""),
        (typer.Abort(), 1, "error: no answer → nothing was done"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_exit_codes(error: BaseException, code: int, line: str, capfd: Captured) -> None:
    assert app.run(["boom"], failing(error)) == code
    assert capfd.readouterr().err.rstrip("\n") == line


def test_each_reason_is_a_line_and_the_offer_can_be_copied(capsys: Captured) -> None:
    reasons = [errors.PreconditionError("a has\nno key", "add one"), errors.PreconditionError("no table b")]
    assert app.run(["boom"], failing(TablesRefusedError(reasons, "source:\n  tables:\n    - c"))) == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: a has no key → add one",
        "error: no table b",
        "source:",
        "  tables:",
        "    - c",
    ]


def test_what_the_system_refuses_is_one_line(capsys: Captured, tmp_path: Path) -> None:
    assert app.report(OSError(errno.EIO, "Input/output error", str(tmp_path / "index"))) == errors.CdcError.exit_code
    assert app.report(ConnectionResetError()) == errors.CdcError.exit_code
    first, second = capsys.readouterr().err.splitlines()
    told = " → mend that, and run the same again; --debug shows where it happened"
    assert first == f"error: {tmp_path / 'index'}: Input/output error{told}"
    assert second == f"error: ConnectionResetError{told}"


def test_unexpected_error_is_two_lines(capsys: Captured) -> None:
    assert app.run(["boom"], failing(ValueError("a\nb"))) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: unexpected")
    assert first.endswith(": ValueError: a b")
    assert second == "run with --debug for the traceback"


@pytest.mark.parametrize("error", [ValueError("x"), errors.RefusedError("x")])
def test_debug_shows_the_traceback(error: Exception, capsys: Captured) -> None:
    code = app.run(["--debug", "boom"], failing(error))
    assert code == getattr(error, "exit_code", 1)
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["inti"], "error: No such command 'inti'. Did you mean 'init'? → run `cdc --help`"),
        (["init", "--zzzz"], "error: No such option: --zzzz → run `cdc init --help`"),
        (["config"], "error: Missing command. → run `cdc config --help`"),
    ],
)
def test_usage_errors(arguments: list[str], line: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_help_without_a_verb(capsys: Captured) -> None:
    assert main([]) == 0
    assert "Usage: cdc" in capsys.readouterr().out


@pytest.mark.parametrize("group", [[], ["config"], ["demo"]])
def test_help_of_every_verb_fits_in_one_line(group: list[str], capsys: Captured) -> None:
    assert main([*group, "--help"]) == 0
    _, _, listed = capsys.readouterr().out.partition("Commands:\n")
    verbs = [line.split(maxsplit=1) for line in listed.splitlines()]
    assert all(len(verb) == 2 and verb[1].endswith(".") and not verb[1].endswith("...") for verb in verbs), verbs
    assert verbs


def test_configuration_error_has_one_line_per_problem(folder: Path, capsys: Captured) -> None:
    (folder / "cdc.yaml").write_text("version: 2\npipeline: {name: shop}\nconect: {}\n")
    assert main(["config", "check"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "error: cdc.yaml:1: connect: is required"
    assert lines[-1] == "error: cdc.yaml:3: conect: unknown key, did you mean 'connect'?"
    assert all(line.startswith("error: cdc.yaml:") for line in lines)


def test_init_writes_a_file_that_loads(folder: Path, capsys: Captured) -> None:
    assert main(["init", "--name", "store", "--table", "orders", "--table", "sales.lines"]) == 0
    assert main(["config", "check"]) == 0
    out, err = capsys.readouterr()
    assert out == "cdc.yaml: ok: pipeline store, tables: 2, followers: lake, search, latest\n"
    written, unasked = err.splitlines()
    assert written == "cdc.yaml written; edit it, then run `cdc config check`"
    assert unasked.startswith("warning: the source was not asked: its tables were not checked: Postgres localhost:")
    assert json.loads((folder / ".cdc" / "cdc.schema.json").read_text())["title"] == "cdc.yaml"
    first = (folder / "cdc.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.cdc/cdc.schema.json"


def test_init_names_the_database(folder: Path) -> None:
    assert main(["init", "--dbname", "other"]) == 0
    assert "  dbname: other\n" in (folder / "cdc.yaml").read_text()


def test_init_does_not_overwrite(folder: Path, capsys: Captured) -> None:
    (folder / "cdc.yaml").write_text("mine")
    assert main(["init"]) == 8
    assert capsys.readouterr().err == "error: cdc.yaml exists → --force overwrites it\n"
    assert (folder / "cdc.yaml").read_text() == "mine"
    assert not (folder / ".cdc").exists()
    assert main(["init", "--force"]) == 0
    assert main(["config", "check"]) == 0


@pytest.mark.parametrize("arguments", [["--name", "Shop"], ["--table", "public."]])
def test_init_checks_its_values(arguments: list[str], folder: Path) -> None:
    assert main(["init", *arguments]) == 2
    assert not (folder / "cdc.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--every", "1h", "--keys", "3", "--wait", "0"], "--every goes with --follower only, not with --keys, --wait"),
        (["--every", "1h", "--follower", "lake", "--json"], "--every goes with --follower only, not with --json"),
        (["--chain", "--every", "1h"], "--chain goes with --json only, not with --every"),
        (["--chain", "--table", "public.a"], "--chain goes with --json only, not with --table"),
    ],
)
def test_verify_names_the_options_that_a_way_of_it_does_not_take(
    arguments: list[str], named: str, capsys: Captured
) -> None:
    assert main(["init"]) == 0
    capsys.readouterr()
    assert main(["verify", *arguments]) == 2
    assert f"error: {named} → leave" in capsys.readouterr().err


def test_another_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["init", "-o", "other.yaml"]) == 0
    assert main(["config", "check"]) == 2
    assert main(["--config", "other.yaml", "config", "check"]) == 0
    monkeypatch.setenv("CDC_CONFIG", "other.yaml")
    assert main(["config", "check"]) == 0


def test_render_and_schema_are_data(capsys: Captured) -> None:
    main(["init"])
    capsys.readouterr()
    assert main(["config", "render"]) == 0
    out, err = capsys.readouterr()
    assert (out.startswith("version: 1\n"), err) == (True, "")
    assert "canary" not in out
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "cdc.yaml"


def test_versions(capsys: Captured) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pyspark"].startswith("4.")
    assert main(["version"]) == 0
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("cdc ")


def test_warnings_go_to_stderr_once(folder: Path, capsys: Captured) -> None:
    main(["init"])
    text = (folder / "cdc.yaml").read_text()
    (folder / "cdc.yaml").write_text(text.replace("${env:CDC_SOURCE_PASSWORD}", "${file:pw}"))
    (folder / "pw").write_text("canary")
    (folder / "pw").chmod(0o644)
    capsys.readouterr()
    context = Invocation()
    assert context.settings is context.settings
    assert capsys.readouterr().err == "warning: pw can be read by others than its owner → chmod 600 pw\n"


def register_writing(made: typer.Typer) -> None:
    """A verb that reads the configuration, and writes a file."""

    def write(context: typer.Context) -> None:
        assert Invocation.of(context).settings
        Path("written").touch()

    made.command("write")(write)
    made.command("other")(lambda: None)


@pytest.mark.parametrize(("readers", "mode"), [("", 0o600), ("group", 0o640), ("all", 0o644)])
def test_what_a_verb_writes_is_readable_as_the_file_says(folder: Path, readers: str, mode: int) -> None:
    before = os.umask(0o022)
    try:
        assert main(["init"]) == 0
        assert stat.S_IMODE((folder / "cdc.yaml").stat().st_mode) == 0o600

        text = (folder / "cdc.yaml").read_text().replace("${env:CDC_SOURCE_PASSWORD}", "secret")
        chosen = f"\npipeline:\n  readable_by: {readers}" if readers else "\npipeline:"
        (folder / "cdc.yaml").write_text(text.replace("\npipeline:", chosen, 1))
        assert app.run(["write"], [register_writing]) == 0
        assert stat.S_IMODE((folder / "written").stat().st_mode) == mode
        # nobody else's
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def run_and_list_modules(*commands: Sequence[str]) -> dict[str, set[str]]:
    """The modules that a process has imported after each of these commands."""
    code = (
        "import json, sys; from cdc.__main__ import main; sys.stdout = sys.stderr;"
        f"found = {{' '.join(each): (main(each), [*sys.modules])[1] for each in {[*map(list, commands)]}}};"
        "sys.__stdout__.write(json.dumps(found))"
    )
    env = {**python_path(), "CDC_SOURCE_PASSWORD": "canary"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return {command: set(modules) for command, modules in json.loads(ran.stdout).items()}


ENGINES = {"pyspark", "pyarrow", "psycopg", "kafka", "deltalake", "opensearchpy", "httpx"}


def test_help_imports_nothing_heavy() -> None:
    [imported] = run_and_list_modules(["--help"]).values()
    assert not imported & (ENGINES | {"pydantic", "ruamel", "rich"})


def test_reading_the_configuration_imports_no_engine() -> None:
    main(["init"])
    [imported] = run_and_list_modules(["config", "render"]).values()
    assert "pydantic" in imported
    assert not imported & ENGINES


def test_wrong_configuration_fails_before_any_engine_is_imported(folder: Path) -> None:
    (folder / "cdc.yaml").write_text("version: 2\n")
    verbs = ("bootstrap", "follow", "verify", "submit", "status")
    found = run_and_list_modules(*([verb] for verb in verbs))
    assert {verb: imported & ENGINES for verb, imported in found.items()} == {verb: set() for verb in verbs}


def test_reader_may_close_the_pipe_early() -> None:
    code = (
        "import sys\nfrom cdc.cli import app, output\n"
        "def register(verbs):\n"
        "    verbs.command('much')(lambda: [output.data('x' * 100) for _ in range(10**5)] and None)\n"
        "sys.exit(app.run(['much'], [register]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=python_path()
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr.read() == b""
        assert ran.wait() == 0


def python_path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(filter(None, [str(Path(app.__file__).parents[2]), *sys.path]))}


def test_wipe_leaves_lakes(folder: Path, capsys: Captured) -> None:
    log = folder / ".cdc/lake/public/orders/_delta_log"
    log.mkdir(parents=True)
    assert main(["down", "--wipe", "--yes"]) == 0
    assert log.is_dir()
    assert "lakes, configurations, downloads and secrets of yours stay" in capsys.readouterr().err


def test_wipe_asks_first(capsys: Captured) -> None:
    assert main(["down", "--wipe"]) == 8
    assert "remove all data of the local parts in .cdc (lakes stay)?" in capsys.readouterr().err

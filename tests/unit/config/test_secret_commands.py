"""Secrets that a program prints: by reference, without a shell, within a time, never shown; asked for again."""

import os
import stat
import sys
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

from cdc.config import secret_commands
from cdc.config.errors import InvalidSettingsError
from cdc.config.file import load, read, render
from cdc.local.running.processes import is_alive
from cdc.secrets import RenewableSecret, SecretUnavailableError, renew
from tests.support.waiting import until

WORD = "canary-hunter2"
FILE = """\
version: 1
pipeline: {{name: shop}}
source: {{host: {host}, dbname: d, user: u, tables: [public.a], password: {password}}}
log: {{bootstrap: k}}
connect: {{url: "http://c"}}
followers: {{lake: {{kind: delta, path: lake}}}}
"""


def write(folder: Path, command: str, host: str = "h") -> Path:
    file = folder / "cdc.yaml"
    file.write_text(FILE.format(password=f"'${{exec:{command}}}'", host=host))
    return file


def printing(folder: Path, body: str) -> str:
    """The command of a program of Python with this body."""
    script = folder / "print-secret"
    script.write_text(f"#!{sys.executable}\n{body}\n")
    script.chmod(stat.S_IRWXU)
    return "./print-secret"


def test_what_a_program_prints_is_the_value_and_is_never_shown(tmp_path: Path) -> None:
    command = printing(tmp_path, f"import sys; print({WORD!r} + sys.argv[1])")
    loaded = read(write(tmp_path, f'{command} "with a blank; $HOME"'))
    # no shell has seen the argument
    assert loaded.settings.source.password.get_secret_value() == f"{WORD}with a blank; $HOME"
    assert WORD not in render(loaded) + repr(loaded) + str(loaded.references)


def test_a_secret_among_the_arguments_is_not_rendered(tmp_path: Path) -> None:
    command = f"{printing(tmp_path, 'print(1)')} --token={WORD}"
    rendered = render(read(write(tmp_path, command, host=f"'${{exec:{command}}}'")))
    assert WORD not in rendered
    assert "${exec:./print-secret --token=" in rendered


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"import sys; print({WORD!r}, file=sys.stderr); sys.exit(3)", "ends with exit code 3"),
        ("pass", "prints nothing"),
        (f"import sys; sys.stdout.buffer.write({WORD!r}.encode() + b'\\xff')", "is not UTF-8"),
        (f"print({WORD!r} * 10_000)", "prints more than 64 KiB"),
    ],
)
def test_a_program_without_a_secret_is_told_and_its_words_are_not(body: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError) as told:
        load(write(tmp_path, printing(tmp_path, body)))
    assert why in str(told.value)
    assert "cdc.yaml:3: source.password" in str(told.value)
    assert WORD not in str(told.value)


@pytest.mark.parametrize(
    ("command", "why"), [("./nowhere", "does not start: no such file"), ('a "b', "cannot be taken apart"), (" ", "")]
)
def test_a_command_that_is_none_is_told(command: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=f"gives no value.*{why}"):
        load(write(tmp_path, command))


def test_a_program_that_takes_too_long_ends_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_commands, "SECONDS", 1.0)
    # its child holds the pipe open
    body = "import os, time\npid = os.fork()\nopen(f'pid-{bool(pid)}', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    with pytest.raises(InvalidSettingsError, match="within 1 s"):
        load(write(tmp_path, printing(tmp_path, body)))
    started = [int(each.read_text()) for each in tmp_path.glob("pid-*")]
    # the signal was sent to both, and waited for of one
    until(lambda: all(map(is_gone, started)), "both end")


def is_gone(pid: int) -> bool:
    try:
        return not is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def test_a_program_runs_once_until_its_secret_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, printing(tmp_path, "open('asked', 'a').write('x')\nprint(len(open('asked').read()))"))
    first = load(file).source.password
    assert isinstance(first, RenewableSecret)
    assert (first.get_secret_value(), load(file).source.password.get_secret_value()) == ("1", "1")
    assert first.renew("1")
    assert (first.get_secret_value(), load(file).source.password.get_secret_value()) == ("2", "2")
    # somebody else has met the same refusal before
    assert first.renew("1")
    assert first.get_secret_value() == "2"


def test_a_file_is_read_again_and_a_variable_is_not(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first")
    secret.chmod(0o600)
    file = write(tmp_path, "x")
    file.write_text(FILE.format(host="h", password='"${file:secret}"'))
    password = load(file).source.password
    secret.write_text("second")
    assert renew(password, "first")
    assert password.get_secret_value() == "second"
    secret.unlink()
    with pytest.raises(SecretUnavailableError, match="no such file"):
        renew(password, "second")
    file.write_text(FILE.format(host="h", password='"${env:PW}"'))
    assert not renew(load(file, {**os.environ, "PW": "x"}).source.password, "x")
    assert not renew(SecretStr("x"), "x")

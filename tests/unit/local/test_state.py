"""The state folder: its path, its ports, its passwords, and the lines drawn from its logs."""

import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.text.error_text import pick_last_error
from cdc.local.running import failures, processes
from cdc.local.state import neighbours, passwords, ports
from cdc.local.state_dir import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "state")
    found.make()
    return found


def test_home_is_absolute() -> None:
    assert Home(Path("here")).path == Path.cwd() / "here"


def test_path_that_kafka_cannot_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="choose another folder"):
        Home(tmp_path / "a,b")


def test_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PreconditionError, match="cannot make the state folder"):
        Home(tmp_path / "file" / "state").make()


def test_home_is_made_by_many_at_once(tmp_path: Path) -> None:
    """As the processes of a test run do, whose first has the parts started."""
    together = threading.Barrier(8)
    for each in range(20):
        found = Home(tmp_path / str(each) / "below" / "state")

        def make(of: Home = found) -> None:
            together.wait()
            of.make()

        with ThreadPoolExecutor(8) as pool:
            for made in [pool.submit(make) for _ in range(8)]:
                made.result()


def test_ports_are_chosen_once(home: Home) -> None:
    assert ports.read_ports(home) is None
    chosen = ports.choose(home)
    assert len(set(chosen.values())) == len(chosen) == 6
    assert ports.choose(home) == ports.read_ports(home) == chosen
    ports.require_free(home, chosen, chosen)


def test_taken_port_is_skipped_and_named(home: Home) -> None:
    taken = ports.choose(home)["kafka"]
    with socket.create_server((ports.LOOPBACK, taken)):
        with pytest.raises(PreconditionError, match=f"port {taken} of kafka is taken by .*ports.json"):
            ports.require_free(home, ports.choose(home), ["kafka"])
        home.ports_file.unlink()
        assert ports.choose(home)["kafka"] != taken


def test_ports_of_a_stopped_home_stay_reserved(tmp_path: Path) -> None:
    register, first, second = tmp_path / "homes", Home(tmp_path / "first"), Home(tmp_path / "second")
    register.mkdir()
    for each in (first, second):
        each.make()
    # those that the second would choose, if they were nobody's
    chosen = ports.choose(second)
    second.ports_file.rename(first.ports_file)
    neighbours.note(register, first)
    assert neighbours.ports_of_others(register, first) == set()
    of_others = neighbours.ports_of_others(register, second)
    assert of_others == {*chosen.values()}
    assert not of_others & {*ports.choose(second, of_others).values()}
    # wiped, it comes back to none
    first.ports_file.unlink()
    assert neighbours.ports_of_others(register, second) == set()
    assert not [*register.iterdir()]


def test_concurrent_homes_choose_different_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register, homes = tmp_path / "homes", [Home(tmp_path / name) for name in ("first", "second")]
    register.mkdir()
    for each in homes:
        each.make()
    both, choose = threading.Barrier(2), ports.choose

    def slowly(home: Home, of_others: Collection[int]) -> Mapping[str, int]:
        # until the other is here, too: who comes one after the other waits in vain
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return choose(home, of_others)

    monkeypatch.setattr(ports, "choose", slowly)
    # the same port is the first to be tried
    monkeypatch.setattr("zlib.crc32", lambda path: 0)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda home: neighbours.choose_ports(register, home), homes)
    assert not {*first.values()} & {*second.values()}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"~nobody-of-this-name/x", b"a\0b", b"x" * 9000])
def test_damaged_note_does_not_block_other_homes(tmp_path: Path, content: bytes) -> None:
    register, first, second = tmp_path / "homes", Home(tmp_path / "first"), Home(tmp_path / "second")
    register.mkdir()
    first.make()
    ports.choose(first)
    neighbours.note(register, first)
    (register / "0.home").write_bytes(content)
    assert neighbours.ports_of_others(register, second) == {*ports.choose(first).values()}
    first.ports_file.write_text('{"postgres": Infinity}')
    assert neighbours.ports_of_others(register, second) == set()


def test_unwritable_register_is_empty(tmp_path: Path) -> None:
    register, home = tmp_path / "homes", Home(tmp_path / "home")
    neighbours.note(register, home)
    assert neighbours.ports_of_others(register, home) == set()
    assert not register.exists()


def test_port_is_free_after_its_connections_close() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((ports.LOOPBACK, port)):
            server.accept()[0].close()
    assert ports.is_free(port)


@pytest.mark.parametrize("content", ["", "{", "{}", "[]"])
def test_damaged_ports_are_named(home: Home, content: str) -> None:
    home.ports_file.write_text(content)
    with pytest.raises(PreconditionError, match=r"ports\.json is damaged"):
        ports.read_ports(home)


def test_a_home_is_its_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Home(tmp_path / "above" / ".cdc").make()
    finally:
        os.umask(before)
    # root's Postgres runs as another user, who passes through
    passed = 0o011 if os.geteuid() == 0 else 0
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "above").rglob("*")}
    closed = dict.fromkeys(("logs", "secrets", "run"), 448)
    assert made == {".cdc": 0o700 | passed, "local": 0o700 | passed, **closed}


def test_password_is_generated_once_and_private(home: Home) -> None:
    made = passwords.password(home, "writer")
    assert passwords.password(home, "writer").read() == made.read()
    assert passwords.password(home, "reader").read() != made.read()
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.secrets.iterdir()} == {0o600}
    assert stat.S_IMODE(home.secrets.stat().st_mode) == 0o700
    assert made.properties.read_text() == f"user=writer\npassword={made.read()}\n"
    assert made.reference == f"${{file:{made.properties}:password}}"
    assert made.read() not in repr(made)


def test_password_that_is_gone_is_told_and_none_is_made(home: Home) -> None:
    made = passwords.password(home, "writer")
    assert passwords.find_password(home, "writer") == made
    made.file.unlink()
    with pytest.raises(PreconditionError, match=r"the password of writer is gone: .*writer\.password"):
        passwords.find_password(home, "writer")
    assert not made.file.exists()


def test_part_that_ends_while_it_is_stopped_has_stopped(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (home.record("postgres").parent, home.log("postgres").parent):
        folder.mkdir(parents=True, exist_ok=True)
    found = processes.spawn(home, processes.Launch("postgres", (sys.executable, "-c", "import time; time.sleep(600)")))
    found.kill()
    found.wait()
    # it was there a moment ago
    monkeypatch.setattr(processes, "find", lambda *_: found)
    assert processes.stop(home, "postgres", signal.SIGTERM, 1.0)
    assert not home.record("postgres").exists()


def test_forget_deletes_only_passwords(home: Home) -> None:
    for user in ("writer", "reader"):
        passwords.password(home, user)
    own = {"mine.properties", "shop.password"}
    for name in own:
        (home.secrets / name).touch()
    passwords.forget(home, ("writer", "reader"))
    assert {file.name for file in home.secrets.iterdir()} == own


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "it wrote nothing"),
        ("one\ntwo\n\n", "two"),
        ("2026 FATAL: invalid value\nLOG: shut down\n", "2026 FATAL: invalid value"),
        (
            "ERROR failed\njava.lang.Error: x\n  at a.Exception.b\nCaused by: no bind\n  ... 7 more\nERROR end\n",
            "Caused by: no bind",
        ),
    ],
)
def test_the_last_error_of_a_log_is_its_cause(log: str, line: str) -> None:
    assert pick_last_error(log) == line


def test_only_lines_of_this_start_count(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("ERROR old\n")
    offset = failures.size(log)
    log.write_text("ERROR old\nERROR new\n")
    assert "kafka did not start: ERROR new → see" in str(failures.startup_error("kafka", log, offset))


def test_full_disk_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    log.write_text("Caused by: java.io.IOException: No space left on device\nERROR later\n")
    assert "the disk is full" in str(failures.startup_error("kafka", log, 0))
    assert "the disk is full" in str(failures.command_error("postgres", "initdb", log.read_text()))

"""Checks run beside each other: what fails or hangs is one finding, and keeps no other from its answer."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cdc.config.settings import PipelineSettings
from cdc.core.errors import HistoryLostError, PreconditionError, SeveralErrors, UnreachableError
from cdc.run.doctor.asking import PartQuestion, SilentPartError
from cdc.run.doctor.check import Check, Fault, Severity, registered_checks
from cdc.run.doctor.page import to_markdown
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.runner import examine, list_bootstrap_checks, select_checks
from cdc.run.pipeline import Pipeline
from tests.support.parts.ports import free_ports
from tests.unit.config.test_settings import made

PAGE = Path(__file__).parents[4] / "cdc/run/doctor/DOCTOR.md"


@pytest.fixture
def settings(tmp_path: Path) -> PipelineSettings:
    source = {"host": "127.0.0.1", "port": 1, "dbname": "d", "user": "u", "password": "canary", "tables": ["public.t"]}
    followers = {"lake": {"kind": "delta", "path": str(tmp_path)}}
    return made(pipeline={"name": "p", "state": str(tmp_path)}, source=source, followers=followers)


@pytest.fixture
def parts(settings: PipelineSettings) -> AskedParts:
    return AskedParts(Pipeline(settings))


def named(name: str, look: Any, severity: Severity = Severity.ERROR, seconds: float = 5.0) -> Check:
    return Check(name, severity, "it matters", look, seconds)


def find_nothing(_: AskedParts) -> Iterator[Fault]:
    yield from ()


def find_loss(_: AskedParts) -> Iterator[Fault]:
    yield Fault("slot", "it is gone", "make it anew", kind=HistoryLostError)


def fail(_: AskedParts) -> Iterator[Fault]:
    raise ZeroDivisionError("secret")


def refuse(_: AskedParts) -> Iterator[Fault]:
    raise PreconditionError("it does not hold", "mend it")


def test_a_check_that_fails_is_a_finding_without_its_text(parts: AskedParts) -> None:
    found = examine(parts, [named("a.fails", fail), named("a.refuses", refuse), named("a.fine", find_nothing)])
    assert [(each.check, each.problem.what) for each in found.findings] == [
        ("a.fails", "check a.fails has failed: ZeroDivisionError"),
        ("a.refuses", "it does not hold"),
    ]
    assert (found.checks, found.exit_code) == (3, 3)


def test_a_check_that_hangs_is_a_finding_when_its_time_is_over(parts: AskedParts) -> None:
    ended = threading.Event()

    def hang(_: AskedParts) -> Iterator[Fault]:
        ended.wait()
        yield from ()

    try:
        found = examine(parts, [named("a.hangs", hang, seconds=0.05), named("a.lost", find_loss)])
    finally:
        ended.set()
    assert [each.check for each in found.findings] == ["a.hangs", "a.lost"]
    assert found.findings[0].problem.kind is UnreachableError


def test_errors_come_first_and_are_what_a_verb_ends_with(parts: AskedParts) -> None:
    worth_knowing = named("a.note", find_loss, Severity.NOTE)
    assert examine(parts, [worth_knowing]).error is None
    found = examine(parts, [worth_knowing, named("a.lost", find_loss)])
    assert [each.severity for each in found.findings] == [Severity.ERROR, Severity.NOTE]
    assert isinstance(found.error, HistoryLostError)
    assert found.exit_code == HistoryLostError.exit_code
    assert isinstance(examine(parts, [named("a.lost", find_loss), named("a.no", refuse)]).error, SeveralErrors)


def test_a_silent_part_is_one_finding(parts: AskedParts) -> None:
    """Nobody listens on that port: all that asks the source finds the same."""
    found = examine(parts, select_checks(["source", "postgres", "role", "slot"]))
    assert [(each.check, each.problem.kind) for each in found.findings] == [("source.tcp", UnreachableError)]
    assert "canary" not in str(found.as_json())


@contextmanager
def silent_ports(count: int) -> Iterator[list[int]]:
    """Ports that take a connection, and never answer."""
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        yield [int(server.getsockname()[1]) for server in servers]


def all_parts_at(folder: Path, ports: Sequence[int]) -> AskedParts:
    postgres, kafka, connect, search = ports
    local = "127.0.0.1"
    source = {"host": local, "port": postgres, "dbname": "d", "user": "u", "password": "canary", "tables": ["public.*"]}
    url = f"http://{local}:{search}"
    settings = made(
        pipeline={"name": "p", "state": str(folder)},
        source=source,
        log={"bootstrap": f"{local}:{kafka}"},
        connect={"url": f"http://me:canary@{local}:{connect}"},
        followers={
            "lake": {"kind": "delta", "path": str(folder)},
            "search": {"kind": "search", "url": url, "username": "me", "password": "canary"},
        },
    )
    return AskedParts(Pipeline(settings))


SILENT = {"source.tcp", "kafka.answers", "connect.answers", "search.answers"}


def test_parts_that_are_down_are_one_finding_each(tmp_path: Path) -> None:
    found = examine(all_parts_at(tmp_path, free_ports(4)), select_checks(()))
    assert {each.check for each in found.of(Severity.ERROR)} == SILENT
    assert found.exit_code == UnreachableError.exit_code
    assert "canary" not in str(found.as_json())


def test_parts_that_hang_keep_nobody_for_ten_seconds(tmp_path: Path) -> None:
    with silent_ports(4) as ports:
        found = examine(all_parts_at(tmp_path, ports), select_checks(()))
    assert {each.check for each in found.of(Severity.ERROR)} == SILENT
    assert found.seconds < 10


def test_a_question_is_asked_once_and_waited_for_no_longer_than_its_time() -> None:
    asked = list[int]()
    whole = PartQuestion("a.part", "a part", lambda: asked.append(1) or 7, 5.0)  # type: ignore[func-returns-value]
    assert [whole.get(), whole.get(), len(asked)] == [7, 7, 1]
    ended = threading.Event()
    hanging = PartQuestion("a.part", "a part", ended.wait, 0.05)
    with pytest.raises(SilentPartError, match="a part has not answered within 0 s"):
        hanging.get()
    ended.set()


def test_every_check_says_what_has_to_hold_and_why() -> None:
    checks = registered_checks()
    assert len(checks) >= 60
    for check in checks:
        assert check.question.endswith(".")
        assert not check.why.endswith(".")
        assert check.why[0].islower() or check.why.startswith(("Debezium", "Postgres", "WAL"))


def test_a_bootstrap_runs_errors_only_and_none_that_it_mends() -> None:
    names = {check.name for check in list_bootstrap_checks()}
    assert {"postgres.wal_level", "role.replication", "kafka.answers", "slot.ours"} <= names
    assert not names & {"connect.connector", "publication.covers", "postgres.slot_bound", "slot.kept"}
    assert "slot.ours" not in {check.name for check in list_bootstrap_checks(["slot"])}


def test_the_page_is_what_the_code_does() -> None:
    assert PAGE.read_text().endswith(f"\n\n{to_markdown()}\n"), "run `python -m cdc.run.doctor.page`, and put it there"

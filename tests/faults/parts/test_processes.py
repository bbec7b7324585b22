"""The real parts as processes: started, found again, stopped for good."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from cdc.core.errors import PreconditionError, RefusedError
from cdc.local.fetch.registry import REGISTRY_VARIABLE
from cdc.local.servers import connect_worker, left_sessions
from cdc.local.services import Endpoints, Home, Service, ServiceStatus, down, endpoints, status, up, wipe
from cdc.local.state import ports
from cdc.local.state.passwords import Password
from tests.support.parts.servers_fixture import Servers
from tests.support.waiting import until

POSTGRES = {Service.POSTGRES}
UP = "import sys, pathlib; from cdc.local.services import *; up(Home(pathlib.Path(sys.argv[1])), {Service.POSTGRES})"


def _removed(home: Home) -> None:
    down(home)
    wipe(home)


@pytest.fixture(scope="module")
def running(local_servers: Servers) -> Home:
    """Where all parts run."""
    assert local_servers.home
    return local_servers.home


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Where Postgres alone may run, or not; each test leaves it so that it can start."""
    home = Home(tmp_path_factory.mktemp("postgres") / ".cdc")
    yield home
    _removed(home)


def _pids(home: Home) -> dict[Service, int | None]:
    return {found.part: found.pid for found in status(home)}


def _listening(found: ServiceStatus) -> set[tuple[str, int]]:
    process = psutil.Process(found.pid)
    sockets = [each for one in (process, *process.children()) for each in one.net_connections("inet")]
    return {(each.laddr.ip, each.laddr.port) for each in sockets if each.status == psutil.CONN_LISTEN}


def _one(endpoints: Endpoints, query: str) -> object:
    with psycopg.connect(endpoints.postgres_dsn(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_every_part_runs_and_says_so(running: Home) -> None:
    for found in status(running):
        assert found.running, found
        assert found.resident_bytes > 10_000_000
        assert found.log.stat().st_size > 0


def test_postgres_is_ready_for_logical_replication(running: Home) -> None:
    found = endpoints(running)
    assert _one(found, "SHOW wal_level") == "logical"
    assert _one(found, "SHOW fsync") == "on"
    # hashed once: a login with our random password costs no 4,096 hashes, of which a connector does many
    assert _one(found, "SELECT rolpassword LIKE 'SCRAM-SHA-256$1:%' FROM pg_authid WHERE rolname = 'postgres'") is True
    assert _one(found, "SHOW scram_iterations") == "4096"


def test_postgres_wants_the_password(running: Home) -> None:
    found = endpoints(running)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(found.postgres_dsn().replace("password=", "password=not-"))


def test_connect_offers_debezium(running: Home) -> None:
    plugins = httpx.get(f"{endpoints(running).connect_login}/connector-plugins").json()
    assert ("io.debezium.connector.postgresql.PostgresConnector", "3.7.0.Final") in [
        (plugin["class"], plugin["version"]) for plugin in plugins
    ]


def test_connect_answers_to_nobody_without_its_password(running: Home) -> None:
    """Whoever may make a connector has it send the source's password anywhere."""
    found = endpoints(running)
    for url in (
        found.connect_url,
        found.connect_login_by("guess"),
        found.connect_url.replace("://", "://user:connect@"),
    ):
        for path in ("connectors", "connector-plugins", "admin/loggers"):
            assert httpx.get(f"{url}/{path}").status_code == 401
        assert httpx.post(f"{url}/connectors", json={"name": "a", "config": {}}).status_code == 401


def test_a_connect_with_another_password_is_named(running: Home, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("guess")
    found = replace(endpoints(running), connect_password=Password(tmp_path / "other", tmp_path / "other"))
    with pytest.raises(PreconditionError, match=r"not started with the password in .*other → run cdc down"):
        connect_worker.answers(found)


def test_a_connector_reads_its_password_from_the_secrets(running: Home) -> None:
    found = endpoints(running)
    wish = {
        "name": "a",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "topic.prefix": "a",
        "database.hostname": found.postgres_host,
        "database.port": str(found.postgres_port),
        "database.dbname": "postgres",
        "database.user": found.postgres_user,
        "database.password": found.postgres_password.reference,
    }
    url = f"{found.connect_login}/connector-plugins/PostgresConnector/config/validate"
    assert httpx.put(url, json=wish, timeout=60).json()["error_count"] == 0
    wish["database.password"] = "${file:/etc/hostname:password}"
    assert httpx.put(url, json=wish, timeout=60).json()["error_count"] > 0


def test_search_has_the_percolator(running: Home) -> None:
    url = f"{endpoints(running).search_url}/queries"
    mapping = {"mappings": {"properties": {"query": {"type": "percolator"}, "text": {"type": "text"}}}}
    assert httpx.put(url, json=mapping, timeout=30).status_code == 200
    assert httpx.delete(url, timeout=30).status_code == 200


def test_everything_listens_on_the_loopback_address_only(running: Home) -> None:
    heard = {address for found in status(running) for address in _listening(found)}
    assert {port for _, port in heard} == set((ports.read_ports(running) or {}).values())
    assert {host.removeprefix("::ffff:") for host, _ in heard} == {ports.LOOPBACK}


def test_the_secrets_are_private(running: Home) -> None:
    assert stat.S_IMODE(running.secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in running.secrets.iterdir()} == {0o600}


def test_up_again_keeps_what_runs(running: Home) -> None:
    before = _pids(running)
    assert up(running) == endpoints(running)
    assert _pids(running) == before


def test_nothing_is_wiped_while_it_runs(running: Home) -> None:
    with pytest.raises(RefusedError, match="still runs"):
        wipe(running)


def test_down_leaves_nothing_and_up_finds_the_data_again(running: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(endpoints(running).postgres_dsn()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS a")
    family = [each for pid in _pids(running).values() for each in (pid, *psutil.Process(pid).children(recursive=True))]
    assert down(running) == [Service.SEARCH, Service.CONNECT, Service.KAFKA, Service.POSTGRES]
    assert not [each for each in family if isinstance(each, psutil.Process) and each.is_running()]
    assert set(_pids(running).values()) == {None}
    chosen = ports.choose(running)
    ports.require_free(running, chosen, chosen)
    assert down(running) == []

    monkeypatch.setenv(REGISTRY_VARIABLE, "http://127.0.0.1:9")
    # Connect alone brings the log that it needs
    up(running, {Service.CONNECT})
    assert [found.part for found in status(running) if found.running] == [Service.KAFKA, Service.CONNECT]
    up(running)
    assert _one(endpoints(running), "SELECT a FROM kept") == 7
    assert ports.choose(running) == chosen


def test_two_commands_at_once_start_one_set(postgres: Home) -> None:
    with ThreadPoolExecutor() as pool:
        ends = pool.map(lambda _: subprocess.run([sys.executable, "-c", UP, postgres.path], check=False), range(3))
    assert [end.returncode for end in ends] == [0, 0, 0]
    found = [each for each in psutil.process_iter(["cmdline"]) if "-D" in (each.info["cmdline"] or [])]
    data = str(postgres.folder(Service.POSTGRES).resolve() / "data")
    assert [each.pid for each in found if data in each.info["cmdline"]] == [_pids(postgres)[Service.POSTGRES]]


def test_a_taken_port_is_explained(postgres: Home) -> None:
    postgres.make()
    down(postgres)
    taken = ports.choose(postgres)[Service.POSTGRES]
    other = subprocess.Popen(
        [sys.executable, "-c", f"import socket; s = socket.create_server(('127.0.0.1', {taken})); print(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(PreconditionError, match=rf"port {taken} of postgres is taken by .*\(pid {other.pid}\)"):
            up(postgres, POSTGRES)
        other.communicate(b"\n")
    up(postgres, POSTGRES)


def test_a_killed_part_comes_back(postgres: Home) -> None:
    up(postgres, POSTGRES)
    first = _pids(postgres)[Service.POSTGRES]
    process = psutil.Process(first)
    family = [process, *process.children()]
    process.kill()
    psutil.wait_procs(family, timeout=30)
    assert _pids(postgres)[Service.POSTGRES] is None
    up(postgres, POSTGRES)
    assert _pids(postgres)[Service.POSTGRES] not in (None, first)


def test_sessions_that_a_killed_postgres_leaves_are_waited_for(postgres: Home) -> None:
    """One that computes ends when it next waits for something."""
    found = up(postgres, POSTGRES)
    with closing(psycopg.connect(found.postgres_dsn(), autocommit=True)) as computing, ThreadPoolExecutor(1) as thread:
        [session] = computing.execute("SELECT pg_backend_pid()").fetchone() or ()
        told = thread.submit(computing.execute, b"DO $$ BEGIN FOR i IN 1..40000000 LOOP NULL; END LOOP; END $$")
        until(lambda: psutil.Process(session).cpu_times().user > 0.2, "it computes")
        psutil.Process(_pids(postgres)[Service.POSTGRES]).kill()
        assert psutil.pid_exists(session)
        assert _one(up(postgres, POSTGRES), "SELECT 1") == 1
        assert told.done()


def test_a_session_that_outlasts_its_postgres_is_named(postgres: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_sessions, "LEFT_SECONDS", 0.5)
    found = up(postgres, POSTGRES)
    with closing(psycopg.connect(found.postgres_dsn())) as stopped:
        [session] = stopped.execute("SELECT pg_backend_pid()").fetchone() or ()
        psutil.Process(session).suspend()
        try:
            psutil.Process(_pids(postgres)[Service.POSTGRES]).kill()
            told = rf"still run \(processes {session}\) → end them \(kill {session}\)"
            with pytest.raises(PreconditionError, match=told):
                up(postgres, POSTGRES)
        finally:
            # whatever failed: nobody else would end it
            psutil.Process(session).kill()
        assert _one(up(postgres, POSTGRES), "SELECT 1") == 1


def test_a_part_that_dies_shows_the_telling_line(postgres: Home) -> None:
    up(postgres, POSTGRES)
    down(postgres)
    settings = postgres.folder(Service.POSTGRES) / "data" / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(f"{before}\nwal_level = nonsense\n")
    with pytest.raises(PreconditionError, match=r'did not start: .*"wal_level": "nonsense" → see .*postgres\.log'):
        up(postgres, POSTGRES)
    settings.write_text(before)


def test_a_lost_password_is_explained(postgres: Home) -> None:
    up(postgres, POSTGRES)
    file = endpoints(postgres).postgres_password.file
    lost = file.rename(file.with_suffix(".lost"))
    with pytest.raises(PreconditionError, match=r"not made with the password in .*postgres\.password"):
        up(postgres, POSTGRES)
    lost.replace(file)


def test_a_home_that_was_never_up_says_so(home: Home) -> None:
    with pytest.raises(PreconditionError, match="nothing was ever started"):
        endpoints(home)
    assert [found.running for found in status(home)] == [False] * 4
    assert down(home) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand Postgres to another user")
def test_below_a_closed_folder_the_cluster_lies_elsewhere(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = Home(tmp_path / ".cdc")
    try:
        up(home, POSTGRES)
        assert home.folder(Service.POSTGRES).is_symlink()
        elsewhere = home.folder(Service.POSTGRES).resolve()
        assert elsewhere.stat().st_uid != 0
    finally:
        _removed(home)
    assert not elsewhere.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand Postgres to another user")
def test_in_an_open_folder_the_cluster_stays_in_the_home() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Home(Path(folder) / ".cdc")
        try:
            up(home, POSTGRES)
            assert not home.folder(Service.POSTGRES).is_symlink()
        finally:
            _removed(home)

"""Starts and stops the local services, and reads their status: the API of this package."""

import shutil
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from filelock import FileLock, Timeout

from cdc.core.errors import PreconditionError, RefusedError
from cdc.local.endpoints import CONNECT_USER, SUPERUSER, Endpoints, Service, ServiceStatus, endpoints_at
from cdc.local.fetch.cache import cache_folder, open_folder
from cdc.local.fetch.jars import fetch
from cdc.local.launch_context import LaunchContext
from cdc.local.running import processes
from cdc.local.running.processes import Launch
from cdc.local.running.startup import Candidate, start
from cdc.local.servers import connect_worker, kafka_broker, opensearch_node, postgres
from cdc.local.state import neighbours, passwords, ports
from cdc.local.state_dir import Home
from cdc.progress import SILENT, Progress

__all__ = ["Endpoints", "Home", "Service", "ServiceStatus", "down", "endpoints", "status", "up", "wipe"]


@dataclass(frozen=True, slots=True)
class _Server:
    """The definition of one service: its ports and files, its process, and its readiness check."""

    ports: tuple[str, ...]
    files: tuple[str, ...]
    launch: Callable[[LaunchContext], Launch]
    answers: Callable[[Endpoints], bool]
    needs: tuple[Service, ...] = ()
    stop_with: signal.Signals = signal.SIGTERM


# in the order of starting: the slowest first, so that the others start beside it
_SERVERS: Final[Mapping[Service, _Server]] = {
    Service.SEARCH: _Server(
        opensearch_node.PORTS, opensearch_node.FILES, opensearch_node.launch, opensearch_node.answers
    ),
    Service.KAFKA: _Server(kafka_broker.PORTS, kafka_broker.FILES, kafka_broker.launch, kafka_broker.answers),
    # SIGTERM would wait for every client to leave (manual, "Shutting Down the Server"), and the connector never does
    Service.POSTGRES: _Server(
        postgres.PORTS, postgres.FILES, postgres.launch, postgres.answers, stop_with=signal.SIGINT
    ),
    Service.CONNECT: _Server(
        connect_worker.PORTS, connect_worker.FILES, connect_worker.launch, connect_worker.answers, (Service.KAFKA,)
    ),
}
HOMES: Final = "homes"
"""The folder of the cache in which the homes that were ever up are noted."""
_STOPPING: Final = 60.0
# the one that holds the lock may be fetching everything for the first time
_WAITING: Final = 600.0
_DYING: Final = 15.0


def up(home: Home, only: Collection[Service] | None = None, progress: Progress = SILENT) -> Endpoints:
    """Start the services (all, or `only` these and those they need), and wait until they answer.

    Running services stay. Raises PreconditionError (no suitable Java, a port taken, a service that ends
    while it starts, with the reason from its log), UnreachableError (an artifact cannot be fetched, a service does not
    answer in time). Services that came up before the failure stay up.
    """
    wanted = _with_needs(only)
    with _alone(home):
        homes = cache_folder() / HOMES
        # a cache that others have filled may not be ours to write: then no home is noted there
        with suppress(PreconditionError):
            open_folder(homes)
        chosen = neighbours.choose_ports(homes, home)
        for part in wanted:
            if processes.find(home, part) is None:
                # a note without its process: it was killed, perhaps a moment ago
                grace = _DYING if home.record(part).exists() else 1.0
                ports.require_free(home, chosen, _SERVERS[part].ports, grace)
        cache = cache_folder()
        files = {name: fetch(name, cache, progress) for part in wanted for name in _SERVERS[part].files}
        site = LaunchContext(home, cache, chosen, files)
        superuser, connect = passwords.password(home, SUPERUSER), passwords.password(home, CONNECT_USER)
        found = endpoints_at(superuser, connect, chosen)
        start(home, [_candidate(part, site, found) for part in wanted], progress)
    return found


def down(home: Home, only: Collection[Service] | None = None) -> list[Service]:
    """Stop the services (all, or `only` these), none before one that needs it; returns those that ran."""
    if not home.local.exists():
        return []
    chosen = [part for part in reversed(Service) if only is None or part in only]
    with _alone(home), ThreadPoolExecutor(max(len(chosen), 1)) as threads:
        stopping: dict[Service, Future[bool]] = {}
        for part in chosen:
            # before `part` in their order: whoever needs it comes first
            needing = [each for name, each in stopping.items() if part in _SERVERS[name].needs]
            stopping[part] = threads.submit(_stop, home, part, needing)
        return [part for part, each in stopping.items() if each.result()]


def _stop(home: Home, part: Service, after: Sequence[Future[bool]]) -> bool:
    """Stop a service after those that need it, even if one of these could not be stopped; returns whether it ran."""
    wait(after)
    return processes.stop(home, part, _SERVERS[part].stop_with, _STOPPING)


def endpoints(home: Home) -> Endpoints:
    """The addresses of the services of `home`, running or not. Raises PreconditionError if it was never up, or its
    password is gone."""
    found = ports.read_ports(home)
    if found is None:
        raise PreconditionError(f"nothing was ever started in {home.path}", "run cdc up first")
    superuser, connect = passwords.find_password(home, SUPERUSER), passwords.find_password(home, CONNECT_USER)
    return endpoints_at(superuser, connect, found)


def status(home: Home) -> list[ServiceStatus]:
    """The status of each service, in the order of `Service`."""
    return [_status(home, part, ports.read_ports(home) or {}) for part in Service]


def wipe(home: Home) -> None:
    """Remove the data, ports, passwords and logs of the services. Raises RefusedError while one of them runs."""
    if not home.local.exists():
        return
    with _alone(home):
        if running := [part for part in Service if processes.find(home, part)]:
            raise RefusedError(f"{', '.join(running)} in {home.path} still runs", "run cdc down first")
        postgres.remove(home)
        passwords.forget(home, (SUPERUSER, CONNECT_USER))
        for part in Service:
            for log in home.logs.glob(f"{part}.log*"):
                log.unlink()
    # without the lock, whose file lies in there; a part that has just ended may still have removed a file of its own
    shutil.rmtree(home.local, onerror=_pass_over_gone)


def _pass_over_gone(_: object, __: str, failed: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(failed[1], FileNotFoundError):
        raise failed[1]


def _status(home: Home, part: Service, chosen: Mapping[str, int]) -> ServiceStatus:
    process = processes.find(home, part)
    return ServiceStatus(
        part=part,
        running=process is not None,
        pid=process.pid if process else None,
        port=chosen.get(part),
        resident_bytes=processes.resident_bytes(process) if process else 0,
        log=home.log(part),
    )


def _with_needs(only: Collection[Service] | None) -> list[Service]:
    asked = set(Service) if only is None else set(only)
    needed = {need for part in asked for need in _SERVERS[part].needs}
    return [part for part in _SERVERS if part in asked | needed]


def _candidate(part: Service, site: LaunchContext, found: Endpoints) -> Candidate:
    kind = _SERVERS[part]
    return Candidate(part, kind.needs, lambda: _launch(part, site), lambda: kind.answers(found))


def _launch(part: Service, site: LaunchContext) -> Launch:
    # root's home can be passed through by others, and Java's files be read by them: they cannot enter the part's folder
    if part != Service.POSTGRES:
        folder = site.home.folder(part)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    return _SERVERS[part].launch(site)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    home.make()
    try:
        with FileLock(home.lock_file, timeout=_WAITING):
            yield
    except Timeout as held:
        raise PreconditionError(
            f"another command has been starting or stopping parts in {home.path} for {_WAITING / 60:.0f} minutes",
            "wait for it, or end it",
        ) from held

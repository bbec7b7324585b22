"""A client of Kafka Connect's REST interface: its calls are idempotent, and retried while the workers rebalance."""

from collections.abc import Mapping
from typing import Any, Final

import httpx
import msgspec
import stamina

from cdc.connect.capture.rest_access import RestAccess
from cdc.core.errors import CdcError, ConfigurationError, PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_first_line
from cdc.https import REMEDY, distrust

ANSWER_SECONDS: Final = 30.0
OFFSETS_SECONDS: Final = 95.0
"""Above what Kafka Connect itself waits for a request of its own, 90 s."""
PATIENCE_SECONDS = 60.0


class Plugin(msgspec.Struct, frozen=True):
    """A class that Connect can load, and the version that it gives itself."""

    class_: str = msgspec.field(name="class")
    version: str | None = None


class WorkerInfo(msgspec.Struct, frozen=True):
    """What a worker says of itself."""

    version: str


class PartStatus(msgspec.Struct, frozen=True):
    """The status of a connector or of one of its tasks; `trace`: the stack trace of its failure."""

    state: str
    trace: str | None = None


class ConnectorStatus(msgspec.Struct, frozen=True):
    """The status of a connector and its tasks."""

    connector: PartStatus
    tasks: tuple[PartStatus, ...]


class ConnectorInfo(msgspec.Struct, frozen=True):
    """A connector's configuration as stored."""

    config: dict[str, str]


class KnownConnector(msgspec.Struct, frozen=True):
    """A connector with its configuration and status."""

    info: ConnectorInfo
    status: ConnectorStatus | None = None


class PropertyVerdict(msgspec.Struct, frozen=True):
    """The errors of one property."""

    name: str
    errors: tuple[str, ...] = ()


class CheckedProperty(msgspec.Struct, frozen=True):
    """An entry of a validation."""

    value: PropertyVerdict


class Validation(msgspec.Struct, frozen=True):
    """Connect's validation of a configuration."""

    configs: tuple[CheckedProperty, ...]


class _Complaint(msgspec.Struct):
    message: str


class _RebalancingError(Exception):
    """HTTP 409: the workers are rebalancing."""


class ConnectClient:
    """One Kafka Connect cluster; every call may be repeated.

    Raises UnreachableError when the cluster does not answer or keeps rebalancing, PreconditionError when it refuses.
    """

    def __init__(self, url: str, access: RestAccess = RestAccess()) -> None:  # noqa: B008 - frozen
        self._url, in_url = split_login(url)
        self._http = httpx.Client(base_url=self._url, auth=access.auth() or in_url, verify=access.context())

    def __enter__(self) -> "ConnectClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def plugins(self) -> set[str]:
        """The classes of the connectors that this Connect can run."""
        return self._list_plugins("/connector-plugins")

    def extensions(self) -> set[str]:
        """The classes on its plugin path that extend connectors: converters, predicates and their like."""
        return self._list_plugins("/connector-plugins?connectorsOnly=false")

    def _list_plugins(self, path: str) -> set[str]:
        return {plugin.class_ for plugin in self.describe_plugins(path)}

    def describe_plugins(self, path: str = "/connector-plugins?connectorsOnly=false") -> list[Plugin]:
        """All classes on its plugin path, with their versions."""
        found: list[Plugin] = self._call("GET", path, kind=list[Plugin])
        return found

    def worker(self) -> WorkerInfo:
        """The worker that answers."""
        found: WorkerInfo = self._call("GET", "/", kind=WorkerInfo)
        return found

    def connectors(self) -> dict[str, KnownConnector]:
        """All connectors by their names; the configurations may have secrets in them."""
        found: dict[str, KnownConnector] = self._call(
            "GET", "/connectors?expand=info&expand=status", kind=dict[str, KnownConnector]
        )
        return found

    def problems(self, config: Mapping[str, str]) -> list[str]:
        """Validate a connector's configuration; returns one sentence for each problem."""
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        checked: Validation = self._call("PUT", path, dict(config), Validation)
        return [f"{entry.value.name}: {error}" for entry in checked.configs for error in entry.value.errors]

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or change its configuration."""
        self._call("PUT", f"/connectors/{name}/config", dict(config))

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's configuration as stored, or None when there is no such connector."""
        found: dict[str, str] | None = self._find(f"/connectors/{name}/config", kind=dict)
        return found

    def status(self, name: str) -> ConnectorStatus | None:
        """The status of the connector *and its tasks*, or None when there is no such connector."""
        found: ConnectorStatus | None = self._find(f"/connectors/{name}/status", kind=ConnectorStatus)
        return found

    def pause(self, name: str) -> None:
        """Let its tasks rest, with their session on the source; returns before they do."""
        self._call("PUT", f"/connectors/{name}/pause")

    def resume(self, name: str) -> None:
        """Let a connector run that was paused or stopped; one that runs goes on."""
        self._call("PUT", f"/connectors/{name}/resume")

    def restart(self, name: str, *, whole: bool = False) -> bool:
        """Restart the connector and its tasks if they have failed, or all of them if `whole` (KIP-745).

        Returns False for one that Kafka Connect is still starting: it has no status yet, and nothing to restart.
        """
        only_failed = "false" if whole else "true"
        try:
            self._call("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed={only_failed}")
        except _MissingError:
            if self.config(name) is None:
                raise
            return False
        return True

    def make_stopped(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector in the state STOPPED (KIP-980)."""
        # only POST has an initial state; for an existing connector it answers 409, which looks like a rebalance
        self._call("POST", "/connectors", {"name": name, "config": dict(config), "initial_state": "STOPPED"})

    def delete_offsets(self, name: str) -> None:
        """Delete the offsets of a stopped connector (KIP-875)."""
        # Connect reads its topic of offsets to the end first, and gives up by itself
        self._call("DELETE", f"/connectors/{name}/offsets", patience=OFFSETS_SECONDS)

    def stop(self, name: str) -> None:
        """Stop its tasks, keep configuration and offsets (KIP-875); returns before the tasks have ended."""
        self._call("PUT", f"/connectors/{name}/stop")

    def delete(self, name: str) -> None:
        """Delete the connector, if it exists."""
        self._find(f"/connectors/{name}", "DELETE")

    def _find(self, path: str, method: str = "GET", kind: Any = Any) -> Any:
        try:
            return self._call(method, path, kind=kind)
        except _MissingError:
            return None

    def _call(
        self, method: str, path: str, body: object = None, kind: Any = Any, patience: float = ANSWER_SECONDS
    ) -> Any:
        """Send a request, and decode the answer as a `kind`; None if it is empty. `patience`: seconds for an answer."""
        try:
            for attempt in stamina.retry_context(on=_RebalancingError, attempts=None, timeout=PATIENCE_SECONDS):
                with attempt:
                    return self._decode(path, self._once(method, path, body, patience), kind)
        except _RebalancingError as error:
            raise UnreachableError(f"Kafka Connect {self._url} keeps rebalancing", "try again") from error
        except httpx.HTTPError as error:
            raise self._to_cdc_error(error) from error
        # for mypy: the loop above returns or raises
        raise AssertionError("unreachable")

    def _to_cdc_error(self, error: httpx.HTTPError) -> CdcError:
        if why := distrust(error):
            what = f"the certificate of Kafka Connect {self._url} is not trusted ({why})"
            return PreconditionError(what, f"name its authority in connect.ca_file, or {REMEDY}")
        if "alert" in str(error).lower():
            # a server's answer to our certificate, or to none
            what = f"Kafka Connect {self._url} ends the session of TLS: {pick_first_line(error)}"
            return PreconditionError(what, "correct connect.certificate_file and connect.key_file")
        return UnreachableError(
            f"Kafka Connect {self._url} does not answer: {pick_first_line(error)}", "check connect.url; is it running?"
        )

    def _once(self, method: str, path: str, body: object, patience: float) -> bytes:
        answer = self._http.request(method, path, json=body, timeout=patience)
        if answer.status_code == httpx.codes.CONFLICT or _is_rebalancing(answer):
            raise _RebalancingError
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise _MissingError(f"Kafka Connect {self._url} has no {path}", "check connect.url")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise PreconditionError(
                f"Kafka Connect {self._url} lets nobody in with this login",
                "correct connect.username and connect.password",
            )
        if answer.is_error:
            raise PreconditionError(f"Kafka Connect {self._url} refuses {path}: {_reason(answer)}", "see its log")
        return answer.content

    def _decode(self, path: str, content: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(content, type=kind) if content else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            # a proxy, or another server at this URL, has answered
            raise UnreachableError(
                f"{self._url}{path} answers with something else than JSON", "is connect.url that of Kafka Connect?"
            ) from None


def _is_rebalancing(answer: httpx.Response) -> bool:
    # a request for a configuration that meets a rebalance is refused as an error of the server, not as a conflict
    return answer.is_server_error and "rebalance is expected" in answer.text


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """Take a URL apart into the address, which errors and logs may show, and its user and password.

    Raises ConfigurationError for a text that is no URL, without showing it.
    """
    remedy = "write special characters of a user and a password as %XX"
    try:
        whole = httpx.URL(url)
    except httpx.InvalidURL:
        raise ConfigurationError("connect.url is no address of a server", remedy) from None
    address = str(whole.copy_with(userinfo=b"")).rstrip("/")
    # a password with a slash ends the host's part before its end
    if "@" in address:
        raise ConfigurationError("connect.url has a @ behind its host", remedy)
    return address, (whole.username, whole.password) if whole.userinfo else None


class _MissingError(CdcError):
    # an ordinary error of calls that need the connector; `_find` makes None of it
    pass


def _reason(answer: httpx.Response) -> str:
    try:
        return msgspec.json.decode(answer.content, type=_Complaint).message.splitlines()[0]
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
        return f"HTTP {answer.status_code}"

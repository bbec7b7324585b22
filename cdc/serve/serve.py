"""`cdc serve`: looks at a pipeline once an interval, and shows what it sees to all browsers."""

import ipaddress
import os
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from starlette.routing import Mount
from starlette.types import ASGIApp

from cdc.core.containment import LOG
from cdc.core.errors import ConfigurationError
from cdc.run.metrics.collection import open_registry
from cdc.run.metrics.otlp import send_metrics
from cdc.run.metrics.serving import metrics_app
from cdc.run.pipeline import Pipeline
from cdc.run.status.document import Document, to_builtins
from cdc.run.status.watch import StatusWatch
from cdc.serve.app import Site, build_app
from cdc.serve.guard import LOOPBACK, Door
from cdc.serve.history import History
from cdc.serve.page import Page
from cdc.serve.publisher import Publisher
from cdc.serve.server import open_socket, run_server
from cdc.serve.tokens import Token
from cdc.serve.tracing import Tracer
from cdc.serve.verbs.verbs import NAMES, Verbs

TOKEN_VARIABLE: Final = "CDC_SERVE_TOKEN"  # noqa: S105 - a variable's name
SHORTEST_TOKEN: Final = 16
ANY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - refused without a token


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where to listen, and what for. `names`: further ones by which browsers ask for this server."""

    host: str = "127.0.0.1"
    port: int = 8474
    every_seconds: float = 2.0
    acts: bool = False
    names: Collection[str] = ()
    file: Path = Path("cdc.yaml")


def serve(
    pipeline: Pipeline,
    options: ServeOptions,
    say: Callable[[str], None],
    on_start: Callable[[uvicorn.Server], None] = lambda _: None,
) -> None:
    """Serve until the process is interrupted. `say` gets the address to open, with the token if there is one.

    Raises ConfigurationError for an address that is not this machine's, or a token that is too short, and
    PreconditionError when somebody listens there already.
    """
    token = find_token(options)
    listening = open_socket(options.host, options.port)
    port = int(listening.getsockname()[1])
    is_public = not _is_loopback(options.host)
    # cookies do not tell ports apart
    door = Door(list_names(options), token, is_public, options.acts, cookie_name=f"cdc_{port}")
    publisher = Publisher()
    verbs = Verbs(pipeline, options.file, publisher, door)
    page = Page(pipeline.name, NAMES if options.acts else (), traces=True)
    routes = [Tracer(pipeline).route, *(verbs.routes if options.acts else ())]
    with (
        History(pipeline.state / "serve" / f"{pipeline.name}.sqlite") as history,
        StatusWatch(pipeline, options.every_seconds, previous=history.previous, file=options.file) as watch,
        _telling(pipeline, watch, say) as metrics,
    ):
        watch.subscribe(partial(_publish, publisher, history, options))
        for line in describe_address(options, port, token):
            say(line)
        app = build_app(Site(publisher, door, page), *routes, Mount("/metrics", metrics))
        run_server(app, listening, on_start)


def _publish(publisher: Publisher, history: History, options: ServeOptions, document: Document) -> None:
    """Show a document; one that cannot be shown is logged, and the page says how old the last one is."""
    try:
        found = to_builtins(history.add(document))
        found["pipeline"] |= {"may_act": options.acts}
        publisher.publish(found)
    except Exception as error:  # noqa: BLE001 - this is the watch's own thread, which others listen to as well
        LOG.error("status document %s is not shown: %s", document.seq, error, exc_info=error)


@contextmanager
def _telling(pipeline: Pipeline, watch: StatusWatch, say: Callable[[str], None]) -> Iterator[ASGIApp]:
    """The metrics of the watch, as an application, and sent by OTLP meanwhile where the settings say so."""
    registry = open_registry(pipeline, watch)
    with send_metrics(registry, pipeline.settings.metrics.otlp, say):
        yield metrics_app(registry)


def find_token(options: ServeOptions) -> Token | None:
    """The token of those who act, or read from elsewhere; None where neither is asked for."""
    if not options.acts and _is_loopback(options.host):
        return None
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return Token.make()
    if len(given) < SHORTEST_TOKEN:
        raise ConfigurationError(f"{TOKEN_VARIABLE} has fewer than {SHORTEST_TOKEN} characters", "take a longer one")
    return Token(given)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def list_names(options: ServeOptions) -> frozenset[str]:
    """The names by which browsers may ask for this server."""
    own = {options.host} if options.host not in ANY_ADDRESS else {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in (*LOOPBACK, *own, *options.names))


def describe_address(options: ServeOptions, port: int, token: Token | None) -> list[str]:
    """What is printed at the start: the address to open, and what it lets one do. A given token is not printed."""
    host = socket.gethostname() if options.host in ANY_ADDRESS else options.host
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    if token is None:
        return [f"the page: {address}", "it reads only; `cdc serve --act` lets it act. Ctrl-C ends it"]
    shown = token.text if TOKEN_VARIABLE not in os.environ else f"${TOKEN_VARIABLE}"
    lines = [f"the page: {address}#token={shown}", "who has this address may act" if options.acts else "it reads only"]
    if not _is_loopback(options.host):
        lines.append("note: this is HTTP: what is between readers and this machine sees the page and the token")
    return lines

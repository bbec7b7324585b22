"""The server's socket and its end."""

import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from cdc.core.errors import ConfigurationError, PreconditionError

BACKLOG = 128


def open_socket(host: str, port: int) -> socket.socket:
    """Listen at an address; port 0 takes a free one.

    Raises PreconditionError when another process listens there, ConfigurationError for an address that is not this
    machine's.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigurationError(f"{host} is no address: {error.strerror}", "correct --host") from error
    listening = socket.socket(family, kind)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        remedy = "end that process, or name another --port"
        raise PreconditionError(f"cannot listen at {host}:{port}: {error.strerror}", remedy) from error
    return listening


def run_server(
    app: ASGIApp, listening: socket.socket, on_start: Callable[[uvicorn.Server], None] = lambda _: None
) -> None:
    """Serve until the process is interrupted; open streams end with it.

    `on_start` gets the server, which another thread may tell to exit.
    """
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    on_start(server)
    # it has ended in good order, and then raises the signal again
    with suppress(KeyboardInterrupt):
        server.run([listening])

"""A real server of the page over documents that a test publishes; it can be killed, and started again at its port."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import uvicorn
from starlette.routing import Route

from cdc.serve.app import Site, build_app
from cdc.serve.guard import LOOPBACK, Door
from cdc.serve.page import Page
from cdc.serve.publisher import Publisher
from cdc.serve.server import open_socket, run_server
from tests.support.waiting import until

MakeRoutes = Callable[[Publisher], Sequence[Route]]


class LiveSite:
    """Listens at a free port of the loopback address, from `start` to `kill`."""

    def __init__(
        self,
        door: Door | None = None,
        verbs: Sequence[str] = (),
        routes: Callable[[Publisher], Sequence[Route]] = lambda _: (),
    ) -> None:
        self.door = door or Door(LOOPBACK)
        self._verbs, self._routes = verbs, routes
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Serve nothing yet: what was published before is gone, as after the end of a process."""
        self.publisher = Publisher()
        site = Site(self.publisher, self.door, Page("shop", self._verbs, traces=True))
        listening = open_socket("127.0.0.1", self.port)
        self.port = int(listening.getsockname()[1])
        servers: list[uvicorn.Server] = []
        arguments = (build_app(site, *self._routes(self.publisher)), listening, servers.append)
        self._thread = threading.Thread(target=run_server, args=arguments, daemon=True)
        self._thread.start()
        until(lambda: bool(servers) and servers[0].started, "the server has started")
        self._server = servers[0]

    def kill(self) -> None:
        """End at once, whoever listens."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()

    def publish(self, document: Mapping[str, Any]) -> None:
        self.publisher.publish(document)

    def stand_at(self, now: datetime) -> None:
        """Let it be this time for the server, however long a test takes; a page drifts for a beat at most."""
        self.publisher.now = lambda: now  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

"""HTTP over TLS by a server of a test."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serve_over_tls(
    handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext, port: int = 0, *, is_patient: bool = True
) -> Iterator[int]:
    """Serve at this port of the loopback address, or a free one, as long as the context lasts; the port.

    `is_patient`: a client's handshake is left to its own thread, and holds up no other client.
    """
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=not is_patient)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()

"""Finds whether a cluster takes connections at all, before a client of librdkafka is made for it.

A client without a broker connects again all the time, and its request fails only when its time has run out: a look each
two seconds takes a sixth of a core. A refused connection says the same at once.
"""

import socket
from typing import Final
from urllib.parse import urlsplit

from cdc.core.errors import UnreachableError
from cdc.core.waiting import Deadline
from cdc.log.settings import LogSettings

KNOCK_SECONDS: Final = 2.0
"""How long all servers of the list may take together."""
_PORT: Final = 9092


def check_reachable(log: LogSettings) -> None:
    """Raise UnreachableError when no bootstrap server takes a TCP connection; one that nobody had time for may."""
    deadline, reasons = Deadline(KNOCK_SECONDS), list[str]()
    for server in filter(None, map(str.strip, log.bootstrap.split(","))):
        # librdkafka allows a protocol before the host
        parts = urlsplit(f"//{server.rpartition('://')[2]}")
        if deadline.is_past:
            return
        try:
            with socket.create_connection((parts.hostname or "", parts.port or _PORT), deadline.seconds_left):
                return
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or error}")
    if reasons:
        what = f"Kafka {log.bootstrap} does not answer: {'; '.join(reasons)}"
        raise UnreachableError(what, "check log.bootstrap; is it running?")

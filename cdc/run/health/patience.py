"""How long each sign of a failing capture is waited for, and why: all of it in one place.

Read as `patience.FOLLOW` at the moment of waiting, so that a test may have less of it.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Final

# When a standstill is certain, by the source's clock
QUIET_BEATS: Final = 3
LEAST_QUIET_SECONDS: Final = 15.0
"""The least time without progress before a closer look, however short heartbeats are: a restart takes seconds."""
WALKING_SECONDS: Final = 120.0
"""The same while Postgres has not sent our row yet: after a restart, Debezium skips through a large transaction, and
writes nothing meanwhile."""
OBSERVED_SECONDS: Final = 10.0
"""How long our own row must be missing without progress."""

# Within one check
LOCK_MILLISECONDS: Final = 3_000
"""For a lock on the heartbeat table: who holds it is named."""
VISIBLE_SECONDS: Final = 10.0
"""For a commit in the log to become visible: its markers reach the partitions one by one (KIP-98)."""

GONE_SECONDS: Final = 5.0
"""How long a table's topic must be gone until the table is copied again."""

# Between two checks
LOOK_SECONDS: Final = 2.0
"""Of a caller who waits for data: most waits end before the first check."""
POLL_SECONDS: Final = 0.5
PROBE_SECONDS: Final = 0.1
"""Between two reads of the log for a row of our own: it takes about a second."""
ANEW_SECONDS: Final = 60.0
"""From a connector's restart to the next look at whether data moves: its task connects to the source meanwhile."""

# Until waiting is no use
REPAIR_SECONDS: Final = 60.0
"""For a `cdc follow` on this machine to stop the table at which the connector failed, or to begin a copy, which starts
the capture again."""
IDLE_SECONDS: Final = 15.0
"""For a connector to run again that is stopped while its configuration is changed: some seconds, on a busy machine."""
STILL_SECONDS: Final = 120.0
"""For a standstill to pass: a server or a network comes back."""
SILENT_SECONDS: Final = 600.0
"""For Kafka Connect or the source to answer: they may be restarting."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The seconds after which each kind of failing is final for one caller.

    `failed`: the connector has failed, or the source keeps it from going on. `idle`: somebody has paused, stopped or
    deleted it; before that it counts as healthy. `still`: no data moves. `silent`: a server does not answer.
    """

    failed: float = 0.0
    idle: float = 0.0
    still: float = 0.0
    silent: float = 0.0


AT_ONCE: Final = Patience()
"""Of who shows the state."""
STARTING: Final = Patience(idle=IDLE_SECONDS, still=inf)
"""Of who has started the connector: a standstill costs a restart, once."""
VERIFY_ALONE: Final = Patience(still=REPAIR_SECONDS)
"""Of who waits while nobody follows the lake: nobody repairs a failure, but a standstill passes. Beside servers that
start, on a busy machine, a healthy capture stood still for 31 s."""
VERIFY: Final = Patience(REPAIR_SECONDS, IDLE_SECONDS, REPAIR_SECONDS)
"""Of who waits while somebody follows the lake."""
FOLLOW: Final = Patience(0.0, IDLE_SECONDS, STILL_SECONDS, SILENT_SECONDS)
"""Of who follows the lake."""
FOLLOW_BESIDE: Final = replace(FOLLOW, failed=REPAIR_SECONDS)
"""Of who follows while another process follows the lake."""

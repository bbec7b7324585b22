"""What the lake's stream is given: its readers, its settings, and its connections to the process around it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from cdc.columns.feed import FeedRows
from cdc.log.end_reader import EndReader
from cdc.log.names import transaction_topic
from cdc.log.run_reader import RunReader
from cdc.log.settings import LogSettings
from cdc.run.copy.resync_queue import ResyncQueue
from cdc.run.follow.lake.large_runs import LargeRunReader
from cdc.run.follow.stop_reports import StopReports
from cdc.run.follow.stop_requests import StopRequests
from cdc.run.follow.streams import BatchProgress
from cdc.run.health.heartbeat_chain import HeartbeatChain
from cdc.run.repair_requests import RepairRequest, TableRequests
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.settings import DeltaSettings

MESSAGES_A_CHANGE = 2
"""The transaction topic has at most this many messages for one change: a BEGIN and an END."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The stream's readers: of runs (in the driver, or by a Spark job), of new ENDs, and of the heartbeats."""

    small: RunReader
    large: LargeRunReader
    ends: EndReader
    chain: HeartbeatChain


@dataclass(frozen=True, slots=True)
class LakeStreamHooks:
    """The stream's connections to the process around it.

    `reached` hears of every batch and returns whether to go on. `wait` sleeps for seconds, or less when the stream is
    to end. `stops` and `resyncs` hand tables to be stopped, and to be copied again, from thread to thread. `reports`
    hears of stopped tables. `repairs` has rows to be put right. `may_rest`: whether nobody needs a cut for heartbeats
    alone.
    """

    reached: Callable[[BatchProgress], bool]
    say: Callable[[str], None]
    stops: StopRequests
    resyncs: ResyncQueue
    reports: StopReports
    repairs: TableRequests
    wait: Callable[[float], object] = time.sleep
    may_rest: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class LakeStreamConfig:
    """The settings of the log, and those of the lake, which say how large a run is."""

    log: LogSettings
    delta: DeltaSettings

    @property
    def topic(self) -> str:
        """The transaction topic."""
        return transaction_topic(self.log.prefix)

    @property
    def few_messages(self) -> int:
        """Up to so many messages of the transaction topic, a run is small."""
        return self.delta.small_run_changes * MESSAGES_A_CHANGE

    @property
    def most_messages(self) -> int:
        """So many messages of the transaction topic are read at once."""
        return self.delta.batch_changes * MESSAGES_A_CHANGE


def put_right(follower: DeltaFollower, request: RepairRequest) -> int:
    """Do what a repair asks for; returns how many keys had changed since it has read them."""
    if request.is_history:
        follower.copy_history(request.name)
        return 0
    put = FeedRows(request.rows, request.gone)
    return follower.patch(request.name, request.table_id, put, request.since, anew=request.anew)

"""An opened pipeline: what jobs, verbs, pages and programs ask, each part opened once.

Workers import this module with tasks of the modules that use it, so it imports nothing of `cdc.local`, and what only a
driver has when it is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import SparkSession

from cdc.columns.feed import FedFollower
from cdc.config.settings import PipelineSettings
from cdc.core.errors import CdcError, ConfigurationError
from cdc.run.spark.token_urls import let_ask_for_tokens
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.layout import Lake
from cdc.sinks.lake.metadata.cuts import Cuts
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.owner import Owner
from cdc.sinks.registry import fed_follower
from cdc.views.store import ViewStore

if TYPE_CHECKING:
    from psycopg import Connection

    from cdc.connect.capture.connect_client import ConnectClient
    from cdc.core.errors import PausedError
    from cdc.log.clients.reader import Reader
    from cdc.run.lease import Leases
    from cdc.run.repair_requests import RepairRequests
    from cdc.run.requests import Requests

StartSpark = Callable[[], SparkSession]
"""Starts the Spark of a verb; called once, after all checks without it."""


class Pipeline:
    """The parts of one pipeline, each opened when it is first asked for, and closed with it.

    For one thread at a time: another thread works with what `reopened` gives. What the parts have read they keep, until
    `look_again`.
    """

    def __init__(self, settings: PipelineSettings, start_spark: StartSpark | None = None) -> None:
        self.settings = settings
        self._start_spark = start_spark
        self._spark: SparkSession | None = None

    @property
    def name(self) -> str:
        return self.settings.pipeline.name

    @property
    def state(self) -> Path:
        """The folder of what this machine keeps beside the truth."""
        return Path(self.settings.pipeline.state)

    @property
    def indexes(self) -> Path:
        """The folder of the lake's key indexes: a cache, one that is lost is made again of the lake."""
        return self.state / "index" / self.name

    @property
    def leases(self) -> "Leases":
        from cdc.run.lease import Leases

        return Leases(self.state / "leases" / self.name)

    @property
    def requests(self) -> "Requests":
        from cdc.run.requests import Requests

        return Requests(self.state / "requests" / self.name)

    @property
    def repair_requests(self) -> "RepairRequests":
        from cdc.run.repair_requests import RepairRequests

        return RepairRequests(self.state / "requests" / self.name / "repairs")

    def find_pause(self, follower: str) -> "PausedError | None":
        """The pause that keeps a follower from going on: its own, or that of the lake, which feeds it."""
        return self.requests.read_pause(follower) or self.requests.read_pause(self.lake_name)

    @property
    def lake_name(self) -> str:
        """The lake's name among the followers."""
        return self.settings.delta[0]

    @cached_property
    def lake(self) -> Lake:
        """The lake's location, with the name under which it stores its positions."""
        lake = self.settings.delta[1]
        return Lake(lake.path, self.name, lake.access)

    @cached_property
    def lake_follower(self) -> DeltaFollower:
        """The lake's follower, as all jobs of this pipeline share it."""
        return self.open_lake_follower()

    def open_lake_follower(self, recent: ChangeCache | None = None) -> DeltaFollower:
        """A follower of the lake of one's own; it adds its changes to `recent`."""
        return DeltaFollower(self.settings.delta[1], self.lake, self.indexes, recent, self.settings.histories)

    @cached_property
    def table_cuts(self) -> Cuts:
        """The cuts of the tables, for readers: each look sees the newest."""
        return Cuts(self.lake)

    @cached_property
    def views(self) -> ViewStore:
        """The views of the lake."""
        return ViewStore(self.lake, self.indexes)

    @cached_property
    def fed(self) -> Mapping[str, FedFollower]:
        """The followers behind the lake, by name; until Spark has started, only their state can be read."""
        return {
            name: fed_follower(self._spark, follower, Owner(self.name, name), self.settings.log)
            for name, follower in self.settings.followers.items()
            if not isinstance(follower, DeltaSettings)
        }

    def open_feed(self, follower: str, recent: ChangeCache | None = None) -> LakeFeed:
        """The lake's changes for a follower behind it; until Spark has started, only metadata can be read."""
        holds, fits = partial(self.settings.holds, follower), partial(self.settings.holds_table, follower)
        with_views = self.settings.holds_views(follower)
        return LakeFeed(self._spark, self.lake, recent, holds, fits, with_views=with_views)

    def open_table_feed(self, follower: str) -> LakeFeed:
        """The lake's changes for a follower without its views: only metadata can be read."""
        holds, fits = partial(self.settings.holds, follower), partial(self.settings.holds_table, follower)
        return LakeFeed(None, self.lake, holds=holds, fits=fits)

    def open_whole_feed(self) -> LakeFeed:
        """All tables of the lake; until Spark has started, only metadata can be read."""
        return LakeFeed(self._spark, self.lake)

    def open_source(self) -> "AbstractContextManager[Connection[Any]]":
        """A session on the source."""
        from cdc.connect.source.access.connection import open_connection

        return open_connection(self.settings.source)

    def open_connect(self) -> "ConnectClient":
        from cdc.connect.capture.connect_client import ConnectClient
        from cdc.connect.capture.rest_access import RestAccess

        return ConnectClient(self.settings.connect.url, RestAccess.of(self.settings.connect))

    def open_log(self, *, committed: bool = True) -> "Reader":
        from cdc.log.clients.reader import Reader

        return Reader(self.settings.log, committed=committed)

    @property
    def spark(self) -> SparkSession:
        """The session, which starts when it is first asked for."""
        return self.start_spark()

    def start_spark(self) -> SparkSession:
        """Start Spark, unless it runs. The followers behind the lake, if they are open, are opened anew with it."""
        if self._spark is None:
            if self._start_spark is None:
                raise ConfigurationError("this pipeline was opened without Spark", "give a session to cdc.open")
            self._spark = self._start_spark()
            let_ask_for_tokens(self._spark, self.settings.log)
            self._close_fed()
        return self._spark

    def look_again(self) -> None:
        """Let what others have written since be seen: the parts that keep what they have read are opened anew."""
        self._close_fed()
        for part in ("lake_follower", "views"):
            self.__dict__.pop(part, None)

    def reopened(self) -> "Pipeline":
        """The same pipeline with nothing opened but Spark: for another thread, or for what is there now."""
        other = Pipeline(self.settings, self._start_spark)
        other._spark = self._spark
        return other

    def close(self) -> None:
        self.look_again()

    def _close_fed(self) -> None:
        for follower in self.__dict__.pop("fed", {}).values():
            with suppress(CdcError):
                follower.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def select_followers(settings: PipelineSettings, names: Sequence[str]) -> list[str]:
    """The followers of these names, or all if there are none; the views count as one.

    Raises ConfigurationError for an unknown name.
    """
    there = settings.stream_names
    for name in names:
        if name not in there:
            raise ConfigurationError(f"there is no follower {name}", f"cdc.yaml has {', '.join(there)}")
    return list(dict.fromkeys(names or there))

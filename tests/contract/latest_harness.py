"""The latest log under the contract."""

from contextlib import suppress
from unittest.mock import patch

from pyspark.sql import SparkSession

from cdc.core.position import Position
from cdc.log.settings import LogSettings
from cdc.sinks.latest import state
from cdc.sinks.latest.follower import LatestFollower
from tests.contract.fed_harness import FedHarness
from tests.contract.followers import TABLES, Crash
from tests.contract.memory import ChangesInMemory


class LatestHarness(FedHarness):
    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str) -> None:
        super().__init__(spark)
        self._log = LogSettings(bootstrap=bootstrap, prefix=prefix, partitions=2)
        self._follower = self._started()

    def _started(self) -> LatestFollower:
        follower = LatestFollower(self._spark, self._log, self._log.prefix, "latest")
        follower.prepare(TABLES)
        return follower

    def restart(self) -> None:
        self._follower.close()
        self._follower = self._started()

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        """Die with all of the batch's rows written, and its transaction open."""
        with patch.object(state, "position_record", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

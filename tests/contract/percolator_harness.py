"""The percolator under the contract: its rows; what matches is tried in `tests/servers/percolator`."""

from contextlib import suppress
from unittest.mock import patch

from pyspark.sql import SparkSession

from cdc.core.position import Position
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner
from cdc.sinks.percolator import records
from cdc.sinks.percolator.settings import PercolatorSettings
from cdc.sinks.registry import fed_follower
from tests.contract.fed_harness import FedHarness
from tests.contract.followers import OTHERS, TABLES, Crash
from tests.contract.memory import ChangesInMemory
from tests.support.histories import THINGS


class PercolatorHarness(FedHarness):
    def __init__(self, spark: SparkSession, bootstrap: str, url: str, name: str) -> None:
        super().__init__(spark)
        self._log = LogSettings(bootstrap=bootstrap, prefix=name, partitions=2)
        self._settings = PercolatorSettings.model_validate(
            {
                "kind": "percolator",
                "url": url,
                "prefix": name,
                # texts that are no queries: all are refused, and stop nothing
                "queries": {"table": str(OTHERS.name), "column": "big"},
                "tables": [str(THINGS.name)],
            }
        )
        self._start()

    def _start(self) -> None:
        self._follower = fed_follower(self._spark, self._settings, Owner(self._log.prefix, "alerts"), self._log)
        self._follower.prepare(TABLES)

    def restart(self) -> None:
        self._follower.close()
        self._start()

    def crash_in_apply(self, batch: ChangesInMemory, position: Position) -> None:
        """Die with the rows written, and the transaction open."""
        with patch.object(records, "position_record", side_effect=Crash), suppress(Crash):
            self.apply(batch, position)

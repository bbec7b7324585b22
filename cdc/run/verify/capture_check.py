"""Checks that the capture runs, while `verify` waits for data."""

import time
from collections.abc import Callable

from psycopg import Connection

from cdc.connect.source import publication
from cdc.core.waiting import Deadline
from cdc.run.health import patience
from cdc.run.health.capture_health import CaptureHealth
from cdc.run.health.continuity import check_source
from cdc.run.health.result import Failing, Health, Healthy
from cdc.run.pipeline import Pipeline


class CaptureCheck:
    """Raises CdcError when the capture cannot go on by itself. `connection` is to the source."""

    def __init__(self, pipeline: Pipeline, connection: Connection) -> None:
        self._pipeline = pipeline
        self._connection = connection
        self._health = CaptureHealth(pipeline)
        self._next_check = Deadline(patience.LOOK_SECONDS)

    def check_connector(self) -> None:
        """Raise for a connector that failed, or that somebody paused, stopped or deleted.

        Before that, raises what the source has against going on, as all verbs do: a slot or a publication that is lost,
        or a publication that leaves changes out. While somebody follows the lake, waits for what that may repair.
        """
        self._check_source()
        while not self._passes(self._health.check_connector):
            time.sleep(patience.POLL_SECONDS)

    def __call__(self) -> None:
        """Check source and connector, and that data moves, if the last check is LOOK_SECONDS ago."""
        if self._next_check.is_past:
            self._check_source()
            self._passes(self._health.check)
            # after the check, which may take seconds itself
            self._next_check = Deadline(patience.LOOK_SECONDS)

    def _check_source(self) -> None:
        check_source(self._pipeline, self._connection)
        publication.check_whole(self._connection, self._pipeline.settings.source)

    def _passes(self, check: Callable[[patience.Patience, Connection], Health]) -> bool:
        """Does the connector run, as far as Kafka Connect tells? Raises an error that waiting does not repair."""
        is_followed = self._pipeline.leases.is_held(self._pipeline.lake_name)
        found = check(patience.VERIFY if is_followed else patience.VERIFY_ALONE, self._connection)
        # the connector of a Kafka Connect that does not answer may run all the same
        if isinstance(found, Failing) and found.is_final and found.error is not self._health.silent:
            raise found.error
        return self._health.silent is not None or (isinstance(found, Healthy) and not self._health.is_idle)

"""What is asked of Kafka and Kafka Connect: the bytes of the topics, and whether the capture runs."""

from collections.abc import Mapping
from functools import partial

from cdc.log.clients.administration import can_ask, open_administration, sum_bytes
from cdc.log.names import kind_of_topic
from cdc.run.health.capture_health import CaptureHealth, FindState, Look
from cdc.run.health.patience import AT_ONCE
from cdc.run.health.result import Failing
from cdc.run.pipeline import Pipeline
from cdc.run.status.asking.facts import CaptureLook


def read_log_bytes(pipeline: Pipeline) -> Mapping[str, int]:
    """The bytes of the pipeline's topics by their kind; nothing where the client that asks cannot log in.

    Raises CdcError when the cluster does not tell.
    """
    log = pipeline.settings.log
    if not can_ask(log):
        return {}
    with open_administration(log) as client:
        return sum_bytes(client, partial(kind_of_topic, log.prefix))


class CaptureQuestion:
    """Asks whether the capture runs; for one thread. `look`: how it looks whether data moves."""

    def __init__(self, pipeline: Pipeline, look: Look, find_state: FindState) -> None:
        # whether the slot was moved is asked by who asks for the continuity
        self._health = CaptureHealth(pipeline, look, find_state=find_state, asks_slot=False)

    def ask(self, *, is_log_current: bool, explains: bool = True) -> CaptureLook:
        """Judge the connector; and whether data moves, if the newest commit in the log is older than heartbeats take.

        `explains`: source and log are asked why a connector does not run.
        """
        health = self._health
        check = partial(health.check_connector, explains=explains) if is_log_current else health.check
        found = check(AT_ONCE)
        state = health.connector if health.connector and health.connector.state is not None else None
        return CaptureLook(state, health.silent, found if isinstance(found, Failing) else None)

"""Looks at the capture beside the followers, which would wait in silence for what a failed connector does not send."""

from collections.abc import Callable

from cdc.core.errors import CdcError, UnreachableError
from cdc.core.position import Lsn
from cdc.log.kafka_client import Reader
from cdc.log.names import transaction_topic
from cdc.log.transactions import last_end
from cdc.run.settings import PipelineSettings
from connect import slot, source
from connect.connector import broken
from connect.rest import ConnectClient


class CaptureWatch:
    """Says when the capture fails, and when it runs again.

    With a `target`, the LSN that somebody waits for, it also tells whether that will ever come.
    """

    def __init__(self, settings: PipelineSettings, target: Lsn | None, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._target = target
        self._say = say
        self._said: str | None = None

    def hopeless(self) -> CdcError | None:
        """Look once; the failure that keeps the log from ever reaching the target, if there is one."""
        failed = self._look()
        self._tell(str(failed) if failed else None)
        lasting = failed is not None and not isinstance(failed, UnreachableError)
        return failed if lasting and self._target is not None and not self._reached(self._target) else None

    def _look(self) -> CdcError | None:
        src, capture = self._settings.source, self._settings.connect
        try:
            with source.connected(src) as connection:
                slot.check_there(slot.state(connection, src.slot), src.slot)
            with ConnectClient(capture.url) as client:
                return broken(client, capture.connector)
        except CdcError as error:
            return error

    def _reached(self, target: Lsn) -> bool:
        """A log that does not answer may have: whoever waits for it says so."""
        try:
            with Reader(self._settings.log) as reader:
                end = last_end(reader, transaction_topic(self._settings.log.prefix))
        except UnreachableError:
            return True
        return end is not None and end.lsn >= target

    def _tell(self, trouble: str | None) -> None:
        if trouble != self._said:
            self._say(f"capture: {trouble or 'runs again'}")
        self._said = trouble

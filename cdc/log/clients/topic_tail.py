"""Reads a small topic on from look to look, for a state of which the newest record of each key counts."""

from cdc.core.position import Offsets
from cdc.log.clients.reader import Reader, Record, read_settled_bounds
from cdc.log.settings import LogSettings


class TopicTail:
    """The committed records of a topic, each given once; for one thread at a time.

    Its clients are made with the first look, and stay.
    """

    def __init__(self, log: LogSettings, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._readers: tuple[Reader, Reader] | None = None
        self._next: Offsets = {}

    def close(self) -> None:
        """Close the clients; the next look begins at the topic's beginning."""
        readers, self._readers, self._next = self._readers, None, {}
        for reader in readers or ():
            reader.close()

    def __del__(self) -> None:
        # who asks a follower for its position need not close it
        self.close()

    def read(self) -> tuple[bool, list[Record]]:
        """The records since the last look; also whether they are all that there are: at first, or of a new topic.

        Waits for commits under way. No records when there is no such topic.
        """
        readers = self._readers = self._readers or (Reader(self._log), Reader(self._log, committed=False))
        for reader in readers:
            # somebody may have deleted it, and made it anew
            reader.forget(self._topic)
        start, until = read_settled_bounds(*readers, self._topic)
        ends, known = until[self._topic], self._next.get(self._topic, {})
        is_anew = not known or any(ends.get(partition, 0) < at for partition, at in known.items())
        begin = start[self._topic] if is_anew else {**start[self._topic], **known}
        found = [record for at in ends for record in readers[0].read(self._topic, at, begin[at], ends[at])]
        self._next = {self._topic: ends}
        return is_anew, found

"""Reads new ENDs of the transaction topic with a standing consumer."""

from collections.abc import Iterator
from typing import Final

from msgspec import MsgspecError

from cdc.columns.netting.begun import BegunTransactions
from cdc.columns.netting.ends import Ends
from cdc.core.position import FIRST_LOG, Lsn, Position
from cdc.core.waiting import Deadline
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.names import transaction_topic
from cdc.log.transaction_topic import (
    AT_A_TIME,
    added_partitions_error,
    lost_end_error,
    parse_ends,
    unreadable_order_error,
)

ALONE_SECONDS: Final = 10.0
"""How often to check that the topic still has one partition."""


class EndReader:
    """Reads the transaction topic from some offset on, once."""

    def __init__(self, consumer: StandingConsumer, prefix: str) -> None:
        self._consumer = consumer
        self._topic = transaction_topic(prefix)
        self._log_start = FIRST_LOG
        self._next_question = Deadline(0)
        self._begun = BegunTransactions(Lsn(0))

    def begin(self, position: Position) -> None:
        """Start behind this position. Raises TopicLostError when there is no such topic."""
        self._log_start = position.log_start
        self._next_question = Deadline(0)
        self._begun = BegunTransactions(position.lsn, behind_end=position.has_end)
        self._consumer.seek(self._topic, {0: position.topic_offset + 1})

    def waiting(self) -> int:
        """Count the committed offsets that are not read yet."""
        return self._consumer.behind(self._topic)

    def read(self, most: int) -> Iterator[Ends]:
        """Read the ENDs that are committed now among the next `most` offsets, in order, part by part; may be empty.

        Behind a backlog, the first ones can be applied long before the last ones are parsed.
        Raises PreconditionError for a message that is no event, HistoryLostError when the topic has got a second
        partition or an END never comes, UnreachableError when no broker answers.
        """
        self._check_alone()
        # the end as it is now: on a busy source it moves on for ever
        until, more = self._consumer.committed_end(self._topic, most), True
        try:
            while more:
                more = self._consumer.read_until(until, AT_A_TIME)
                yield self._take()
        finally:
            self._consumer.release()

    def _check_alone(self) -> None:
        """Check that there is no second partition, whose ENDs would be left out without an error."""
        if self._next_question.is_past:
            self._next_question = Deadline(ALONE_SECONDS)
            if (found := self._consumer.discover(self._topic)) > 1:
                raise added_partitions_error(self._topic, found)

    def _take(self) -> Ends:
        offsets, values = self._consumer.values(self._topic)
        ends = parse_ends(self._topic, offsets, values)
        try:
            lost = self._begun.find_lost(offsets, values, ends)
        except (MsgspecError, ValueError) as error:
            raise unreadable_order_error(self._topic, f"a BEGIN names no transaction ({error})") from None
        if lost is not None:
            raise lost_end_error(self._topic, lost)
        if offsets:
            self._consumer.advance(self._topic, {0: offsets[-1] + 1})
        return ends.to_positions(self._log_start)

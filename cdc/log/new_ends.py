"""ENDs as they come, read by the consumer that stands ready."""

from cdc.columns.ends import Ends
from cdc.log.clients.standing_consumer import StandingConsumer
from cdc.log.names import transaction_topic
from cdc.log.transactions import ends_of


class NewEnds:
    """The transaction topic behind some offset; what lies before it is not read again."""

    def __init__(self, consumer: StandingConsumer, prefix: str) -> None:
        self._consumer = consumer
        self._topic = transaction_topic(prefix)

    def waiting(self, start: int) -> int:
        """How many offsets from `start` on are committed now."""
        self._consumer.stand(self._topic, {0: start})
        return self._consumer.waiting(self._topic) + self._consumer.behind(self._topic)

    def read(self) -> Ends:
        """The ENDs that `waiting` has counted, in order, and those that have come since; there may be none.

        Raises PreconditionError for a message that is no event, UnreachableError when no broker answers.
        """
        self._consumer.read_to_end(self._topic)
        messages = self._consumer.messages(self._topic)
        ends = ends_of(self._topic, messages["offset"].to_pylist(), messages["value"].to_pylist())
        if len(ends):
            self._consumer.take(self._topic, {0: int(ends.offset[-1]) + 1})
        return ends

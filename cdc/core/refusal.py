"""A message that cannot be decoded: it becomes a dead letter with its offset and reason, and is never dropped."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """The offset of a message in the log, and the reason for its refusal. The reader keeps the message's bytes."""

    topic: str
    partition: int
    offset: int
    reason: str
    waits: bool = False
    """The message itself is valid; it waits behind a refused message of the same key."""

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}: {self.reason}"

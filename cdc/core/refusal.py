"""A message that is no change: kept with its place and its reason, never dropped (decoders are total)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Where the message lies in the log and why it could not be read; its bytes are kept by whoever read it."""

    topic: str
    partition: int
    offset: int
    reason: str
    waits: bool = False
    """It could be read: it waits behind another one of its key."""

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}: {self.reason}"

"""Where the book has it: the chapters about streams of *Designing Data-Intensive Applications*, in both editions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Chapter:
    """A chapter of one edition. `sections`: the titles of its sections, and of the smaller ones within each."""

    edition: str
    number: int
    title: str
    sections: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A section of the book, or a smaller one within it. Raises ValueError for a title that the chapter has not."""

    chapter: Chapter
    section: str
    within: str = ""

    def __post_init__(self) -> None:
        titles = self.chapter.sections.get(self.section, ())
        if self.section not in self.chapter.sections or (self.within and self.within not in titles):
            raise ValueError(f"chapter {self.chapter.number} has no section {self.section!r} with {self.within!r}")

    def __str__(self) -> str:
        chapter = f"{self.chapter.edition} edition, chapter {self.chapter.number}, {self.chapter.title}"
        return f"{chapter}: {self.section}{f' ({self.within})' if self.within else ''}"


_MESSAGING: Final = (
    "Direct messaging from producers to consumers",
    "Message brokers",
    "Message brokers compared to databases",
    "Multiple consumers",
    "Acknowledgments and redelivery",
)
_LOGS: Final = (
    "Using logs for message storage",
    "Logs compared to traditional messaging",
    "Consumer offsets",
    "Disk space usage",
    "When consumers cannot keep up with producers",
    "Replaying old messages",
)
_CAPTURE: Final = (
    "Implementing change data capture",
    "Initial snapshot",
    "Log compaction",
    "API support for change streams",
)
_USES: Final = (
    "Complex event processing",
    "Stream analytics",
    "Maintaining materialized views",
    "Search on streams",
)
_JOINS: Final = (
    "Stream-stream join (window join)",
    "Stream-table join (stream enrichment)",
    "Table-table join (materialized view maintenance)",
    "Time-dependence of joins",
)
_EVENT_TIME: Final = "Event time versus processing time"
_WHOSE_CLOCK: Final = "Whose clock are you using, anyway?"
_WINDOWS: Final = "Types of windows"
_FAULTS: Final = (
    "Microbatching and checkpointing",
    "Atomic commit revisited",
    "Idempotence",
    "Rebuilding state after a failure",
)
_CORRECTNESS: Final = (
    "The End-to-End Argument for Databases",
    "Enforcing Constraints",
    "Timeliness and Integrity",
    "Trust, but Verify",
)
_IMMUTABILITY: Final = (
    "Advantages of immutable events",
    "Deriving several views from the same event log",
    "Concurrency control",
    "Limitations of immutability",
)
_FUTURE: Final = {
    "Data Integration": ("Combining Specialized Tools by Deriving Data", "Batch and Stream Processing"),
    "Unbundling Databases": (
        "Composing Data Storage Technologies",
        "Designing Applications Around Dataflow",
        "Observing Derived State",
    ),
    "Aiming for Correctness": _CORRECTNESS,
}

FIRST: Final = Chapter(
    "first",
    11,
    "Stream Processing",
    {
        "Messaging Systems": _MESSAGING,
        "Partitioned Logs": _LOGS,
        "Keeping Systems in Sync": (),
        "Change Data Capture": _CAPTURE,
        "Event Sourcing": ("Deriving current state from the event log", "Commands and events"),
        "State, Streams, and Immutability": _IMMUTABILITY,
        "Uses of Stream Processing": _USES,
        "Reasoning About Time": (_EVENT_TIME, "Knowing when you're ready", _WHOSE_CLOCK, _WINDOWS),
        "Stream Joins": _JOINS,
        "Fault Tolerance": _FAULTS,
    },
)
SECOND: Final = Chapter(
    "second",
    12,
    "Stream Processing",
    {
        "Messaging Systems": _MESSAGING,
        "Log-Based Message Brokers": _LOGS,
        "Keeping Systems in Sync": (),
        "Change Data Capture": _CAPTURE,
        "State, Streams, and Immutability": _IMMUTABILITY,
        "Uses of Stream Processing": _USES,
        "Reasoning About Time": (_EVENT_TIME, "Handling straggler events", _WHOSE_CLOCK, _WINDOWS),
        "Stream Joins": _JOINS,
        "Fault Tolerance": _FAULTS,
    },
)
FIRST_FUTURE: Final = Chapter("first", 12, "The Future of Data Systems", _FUTURE)
SECOND_PHILOSOPHY: Final = Chapter("second", 13, "A Philosophy of Streaming Systems", _FUTURE)
SECOND_MODELS: Final = Chapter("second", 3, "Data Models and Query Languages", {"Event Sourcing and CQRS": ()})
"""The second edition has event sourcing here, before the chapters on streams."""

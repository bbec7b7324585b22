"""Every lab, one line each. Its module is imported when it is run: so `cdc lab` is quick."""

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cdc.core.errors import ConfigurationError, PreconditionError

if TYPE_CHECKING:
    from cdc.lab.lesson import Lab


@dataclass(frozen=True, slots=True)
class Listing:
    """A lab in the list: its name, its module, and what one sees in it."""

    name: str
    module: str
    shows: str

    def load(self) -> "Lab":
        """Import the module; returns its `LAB`. Raises PreconditionError when a package is missing that it needs."""
        try:
            found: Lab = import_module(self.module).LAB
        except ModuleNotFoundError as error:
            package = str(error.name).split(".")[0]
            raise PreconditionError(
                f"lab {self.name} needs the package {package}", f"pip install {package}, if it is there for this Python"
            ) from error
        return found


LABS: Final = (
    Listing(
        "dual-writes", "cdc.lab.capture.dual_writes", "Two stores that clients write in turn drift apart for ever."
    ),
    Listing("direct", "cdc.lab.logs.direct", "Who is away misses what is sent to it directly; a log keeps it."),
    Listing(
        "queue", "cdc.lab.logs.queue", "A queue that gives a message out again loses the order; a log waits instead."
    ),
    Listing(
        "groups", "cdc.lab.logs.groups", "Each group gets every event; its members share them, in order within a key."
    ),
    Listing(
        "backpressure", "cdc.lab.logs.backpressure", "Too fast a producer: what is lost, what piles up, or who waits."
    ),
    Listing(
        "retention", "cdc.lab.logs.retention", "Who reads too slowly falls off the end of the log, and nobody else."
    ),
    Listing("compaction", "cdc.lab.logs.compaction", "The newest value of each key is a whole table, but no history."),
    Listing(
        "triggers",
        "cdc.lab.capture.triggers",
        "Polling and triggers miss changes or cost the writes; the log does not.",
    ),
    Listing("snapshot", "cdc.lab.capture.snapshot", "A copy without its place in the log loses rows, or doubles them."),
    Listing("replay", "cdc.lab.derived.replay", "A bug in a view is mended by a new view on the old log."),
    Listing(
        "event-sourcing",
        "cdc.lab.derived.event_sourcing",
        "Commands are validated before they are events, which say why.",
    ),
    Listing(
        "cqrs", "cdc.lab.derived.cqrs", "One log, three read models; who waits for its position sees its own write."
    ),
    Listing("event-time", "cdc.lab.streams.event_time", "A rate by arrival shows a spike that never was."),
    Listing("windows", "cdc.lab.streams.windows", "Each type of window answers another question, and may miss yours."),
    Listing("stragglers", "cdc.lab.streams.stragglers", "Late events are ignored or correct, and wrong clocks undone."),
    Listing("joins", "cdc.lab.streams.joins", "A join of streams loses what it does not keep."),
    Listing(
        "tax", "cdc.lab.streams.tax", "A join run again gives another answer, unless the events name their version."
    ),
    Listing(
        "approximate", "cdc.lab.streams.approximate", "Sketches count in kilobytes, nearly right, and can be merged."
    ),
    Listing("patterns", "cdc.lab.streams.patterns", "A pattern in events needs their order: by key and by event time."),
    Listing("percolator", "cdc.lab.streams.percolator", "Saved searches that are run again miss what came and went."),
    Listing(
        "micro-batch",
        "cdc.lab.correctness.micro_batch",
        "A crash between effect and checkpoint doubles effects, or loses them.",
    ),
    Listing(
        "state",
        "cdc.lab.correctness.state",
        "A job's lost state comes back from a changelog, a checkpoint, or the log.",
    ),
    Listing(
        "request-ids",
        "cdc.lab.correctness.request_ids",
        "A client that asks again pays twice, unless an id goes with it to the end.",
    ),
    Listing(
        "claims",
        "cdc.lab.correctness.claims",
        "Who decides in the order of one log gives a name to one client, without a lock.",
    ),
    Listing(
        "transfer",
        "cdc.lab.correctness.transfer",
        "Money goes between partitions without a transaction over both, and none is lost.",
    ),
    Listing(
        "audit",
        "cdc.lab.correctness.audit",
        "Late is not false; a changed past adds up, and a chain of digests finds it.",
    ),
    Listing(
        "unbundled", "cdc.lab.derived.unbundled", "Database, lake, view and index give one answer at one position."
    ),
)


def find_lab(name: str) -> Listing:
    """Find a lab by its name. Raises ConfigurationError, with the names that are near, if there is none."""
    by_name = {listing.name: listing for listing in LABS}
    if name in by_name:
        return by_name[name]
    near = get_close_matches(name, by_name)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigurationError(f"there is no lab {name}", f"{meant}`cdc lab` lists them")

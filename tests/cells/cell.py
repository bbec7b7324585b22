"""The table of cells: what happens (kind), to what (component), meanwhile (phase).

Every kind is crossed with every component and phase, and what cannot be is left out by a rule, with its reason
(`find_reason`). Where order matters in our own code, a component is a fail point (`cdc.core.fail_points`), which is
crossed with the phases in which it is reached.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cdc.core.fail_points import NAMES, FailPoint

PHASES: Final = ("bootstrap", "joining", "steady", "schema", "large", "catch_up", "maintenance", "recapture")
PARTS: Final = ("postgres", "kafka", "connect", "search")
STREAMS: Final = ("lake", "search", "latest", "alerts", "views")
POINT_KINDS: Final = ("raise", "stall", "kill")
PART_KINDS: Final = ("part killed", "part stopped", "connection cut", "connection slow")
STATE_KINDS: Final = ("state lost", "state old", "indexes lost", "index old", "index cut off")
FILE_KINDS: Final = (*STATE_KINDS, "index flipped", "disk full")
LOG_KINDS: Final = ("offsets lost", "topic deleted", "partition added", "slot dropped", "publication narrowed")
OF_CAPTURE: Final = ("offsets lost", "slot dropped", "publication narrowed")
INDEX_KINDS: Final = ("index closed", "index deleted")
PROCESS_KINDS: Final = ("process killed", "process stopped", "clock set")
KINDS: Final = (*POINT_KINDS, *PART_KINDS, *PROCESS_KINDS, *FILE_KINDS, *LOG_KINDS, *INDEX_KINDS)
VERB_PHASES: Final = ("bootstrap", "recapture")
"""Phases that are one verb, from its start to its end."""
BY_PROCESS: Final = ("kill", "process killed", "process stopped")
"""Kinds for which `follow` is a process of its own."""
TOPICS: Final = ("changes", "transactions", "latest", "positions", "matches", "alerts")

COPIES: Final[tuple[FailPoint, ...]] = ("copy.begun", "copy.written", "copy.loaded")
SETUP: Final[tuple[FailPoint, ...]] = (
    "registration.written",
    "publication.made",
    "triggers.made",
    "topics.made",
    "slot.made",
    "connector.stopped",
    "offsets.deleted",
    "connector.forgotten",
    "connector.put",
    "connector.resumed",
    "capture.seen",
    *COPIES,
)
FILLED: Final[tuple[FailPoint, ...]] = (
    "fill.prepared",
    "fill.loaded",
    "fill.whole",
    "search.copy.filled",
    "search.copy.noted",
    "search.copy.placed",
    "latest.copy.written",
)
BATCH: Final[tuple[FailPoint, ...]] = tuple(
    name
    for name in NAMES
    if name.startswith(("lake.", "delta.", "metadata.", "search.", "latest.", "percolator.", "views.", "feed."))
    and ".copy." not in name
    and name not in ("views.filled", "views.extended")
)
REACHED: Final[dict[str, tuple[FailPoint, ...]]] = {
    "bootstrap": (
        *SETUP,
        "metadata.written",
        "delta.commit.before",
        "delta.commit.after",
        "bootstrap.copied",
        "bootstrap.cut",
        "views.filled",
        "views.extended",
        "bootstrap.views",
        *FILLED,
        "lease.taken",
    ),
    "joining": (
        "resync.published",
        *COPIES,
        "resync.copied",
        "join.replayed",
        "join.ended",
        "heartbeat.written",
        *FILLED[3:],
    ),
    "steady": (*BATCH, "request.taken"),
    "schema": ("schema.applied", "stop.stored"),
    "large": ("large.read", "lake.cut.before", "lake.cut.after", "search.written", "latest.sent"),
    "catch_up": ("lease.taken", "lake.read", "lake.table.committed", "search.written"),
    "maintenance": (
        "index.runs.written",
        "index.manifest.written",
        "compact.written",
        "compact.committed",
        "checkpoint.written",
        "vacuum.files",
        "vacuum.commits",
    ),
    "recapture": (
        *(name for name in NAMES if name.startswith("recapture.")),
        "slot.made",
        "offsets.deleted",
        "connector.forgotten",
        "copy.written",
    ),
}
"""The fail points that a pipeline of all features passes in a phase."""


@dataclass(frozen=True, slots=True)
class Cell:
    kind: str
    component: str
    phase: str

    @property
    def id(self) -> str:
        return f"{self.phase} / {self.component} / {self.kind}"


def list_cells() -> list[Cell]:
    """All cells that can be, in the order of kinds."""
    return [cell for cell in cross() if find_reason(cell) is None]


def cross() -> Iterator[Cell]:
    """Every kind with every component of its own and every phase."""
    for phase, points in REACHED.items():
        yield from (Cell(kind, point, phase) for kind in POINT_KINDS for point in points)
    of_kinds = {
        PART_KINDS: PARTS,
        PROCESS_KINDS: ("follow",),
        FILE_KINDS: ("store",),
        LOG_KINDS: ("capture", *TOPICS),
        INDEX_KINDS: ("search", "alerts"),
    }
    for kinds, components in of_kinds.items():
        yield from (Cell(kind, each, phase) for kind in kinds for each in components for phase in PHASES)


def find_reason(cell: Cell) -> str | None:
    """Why a cell cannot be, or is another one; None for one that is run."""
    if cell.kind in POINT_KINDS:
        return None
    if cell.kind in (*PROCESS_KINDS, *FILE_KINDS, *INDEX_KINDS) and cell.phase in VERB_PHASES:
        return "nobody follows meanwhile: the fail points of these verbs stop them everywhere"
    if cell.kind in FILE_KINDS:
        return _find_reason_in_files(cell)
    if cell.kind in LOG_KINDS:
        return _find_reason_in_log(cell)
    if cell.component == "connect" and cell.kind.startswith("connection"):
        return "no connection to Kafka Connect stays open: its requests fail as when it is killed"
    return None


def _find_reason_in_files(cell: Cell) -> str | None:
    if cell.kind in STATE_KINDS and cell.phase != "catch_up":
        return "files are restored or lost while nobody follows; what runs has them open"
    if cell.kind == "index flipped" and cell.phase not in ("catch_up", "steady"):
        return "the same files as when the pipeline is steady"
    return None


def _find_reason_in_log(cell: Cell) -> str | None:
    if (cell.kind in OF_CAPTURE) != (cell.component == "capture"):
        return "a thing of another component"
    if cell.phase in (*VERB_PHASES, "joining", "schema", "maintenance"):
        return "the log is the same as when the pipeline is steady"
    if cell.kind == "partition added" and cell.component in TOPICS[2:]:
        return "a topic of our own, whose partitions nobody may add to: its keys would move"
    return None

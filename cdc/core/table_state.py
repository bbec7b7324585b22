"""The life of a table in the lake, as one type, and the one function that tells it from the stored facts.

::

                 a copy is committed       the stream has replayed up to its position
    Listed ──────────────────────▶ Joining ──────────────────────▶ Followed
                                    ▲   │                             │
                 a copy is committed│   │           a stop            │
                                    │   ▼                             ▼
                                    └─────────────── Stopped ◀────────┘

========  ===============================================  ==========================================  ===============
state     who sets it                                      who waits for it                            durable
========  ===============================================  ==========================================  ===============
Listed    `cdc bootstrap`, or `cdc follow` for a new       nobody; the copy ends it                    the lake's list
          table of a pattern
Joining   the commit of a copy, with its bookmark          the lake's stream, which replays the        the table's log
                                                           changes between copy and position
Followed  the stream after that replay; then every cut     `cdc verify`, `--until-caught-up`,          the cut; until
          that names the table                             `cdc dead-letters replay`                   then in memory
Stopped   the stream, at a change or a file that it        `cdc follow` with `recopy`, the user        the lake's list
          cannot apply or read; `cdc bootstrap --again`    without                                     of stops
========  ===============================================  ==========================================  ===============

A copy under way is no state: only its process knows of it, and after a kill the table is what it was before. A kill
between replay and cut makes a table Joining again: replaying twice gives the same rows. A new copy of a stopped table
is another Delta table, and the stop does not hold for it. `cdc bootstrap` releases a table that is listed no more.

After supabase/etl's `TableState` (`replication/state`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cdc.core.position import Lsn, format_lsn


@dataclass(frozen=True, slots=True)
class Listed:
    """The table has no copy, or none that can be read."""

    name: ClassVar[str] = "listed"


@dataclass(frozen=True, slots=True)
class Joining:
    """The table has a copy, and lacks the changes between it and the lake's position. No cut names it."""

    name: ClassVar[str] = "joining"


@dataclass(frozen=True, slots=True)
class Followed:
    """The table has all changes up to the lake's position, and gets the next ones with all others."""

    name: ClassVar[str] = "followed"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The table is readable as of `lsn`; later changes are not applied, for a reason.

    `recopy`: `cdc follow` copies it again by itself.
    """

    name: ClassVar[str] = "stopped"
    lsn: Lsn
    reason: str
    recopy: bool


TableState = Listed | Joining | Followed | Stopped

ACTIVE: Final = (Joining, Followed)
"""The states of tables that changes are applied to."""


def state_of(stop: Stopped | None, *, has_copy: bool, is_in_cut: bool, is_adopted: bool) -> TableState:
    """The state of a listed table.

    `stop`: of the present copy. `is_in_cut`: the last cut names that copy. `is_adopted`: the stream has replayed it,
    and the next cut will name it.
    """
    # first: cuts from before the stop name the table, and a lost table has no copy that can be read
    if stop is not None:
        return stop
    if not has_copy:
        return Listed()
    return Followed() if is_in_cut or is_adopted else Joining()


def state_as_json(state: TableState) -> dict[str, Any]:
    """The state as JSON values; a stop with its LSN and reason."""
    if not isinstance(state, Stopped):
        return {"state": state.name}
    return {"state": state.name, "lsn": format_lsn(state.lsn), "reason": state.reason, "recopy": state.recopy}

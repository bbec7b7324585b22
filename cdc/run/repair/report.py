"""The result of a repair, and its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.core.errors import CdcError, DivergenceError, PreconditionError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import TableName


@dataclass(frozen=True, slots=True)
class TableRepair:
    """One table, view or history: how many `keys` were put right, in how many `rounds`; how many of them differ still,
    by follower, and how many changed each time that they were compared."""

    keys: int
    rounds: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    moved: int = 0
    is_view: bool = False
    is_history: bool = False

    @property
    def verdict(self) -> str:
        if self.left:
            return "different"
        return "moved" if self.moved else "equal"

    def as_json(self) -> dict[str, Any]:
        left = dict(self.left)
        return {"verdict": self.verdict, "keys": self.keys, "rounds": self.rounds, "left": left, "moved": self.moved}


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was repaired, by table and view, compared again at an LSN; `failed`: what could not be, and why."""

    lsn: Lsn
    tables: Mapping[TableName, TableRepair]
    failed: Mapping[TableName, CdcError]
    seconds: float

    @property
    def is_equal(self) -> bool:
        return not self.failed and all(each.verdict == "equal" for each in self.tables.values())

    def rows(self) -> Sequence[tuple[str, str, int, int, str]]:
        """One line a table: name, verdict, keys, rounds, and where they differ still."""
        return [
            (str(name), each.verdict, each.keys, each.rounds, ", ".join(each.left))
            for name, each in self.tables.items()
        ]

    def check_equal(self) -> None:
        """Raise as a comparison does: DivergenceError where keys differ, PreconditionError where that is not known."""
        if different := [name for name, each in self.tables.items() if each.left]:
            raise DivergenceError(f"repaired keys of {different[0]} differ still", self._find_remedy(different[0]))
        for name, error in self.failed.items():
            raise PreconditionError(f"{name} was not repaired: {error.what}", error.remedy)
        if not self.is_equal:
            raise PreconditionError("some keys changed each time they were compared", "try again when writes are few")

    def _find_remedy(self, name: TableName) -> str:
        if self.tables[name].is_history:
            return "run `cdc repair` again: a history goes on with the rows that its table has then"
        copies = "cdc rebuild" if self.tables[name].is_view else "cdc bootstrap --again"
        return f"`{copies} {name}` makes all of it anew"

    def as_json(self) -> dict[str, Any]:
        return {
            "lsn": format_lsn(self.lsn),
            "equal": self.is_equal,
            "seconds": round(self.seconds, 1),
            "tables": {str(name): each.as_json() for name, each in self.tables.items()},
            "failed": {str(name): str(error) for name, error in self.failed.items()},
        }

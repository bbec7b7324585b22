"""The oldest transaction that has written: no slot can begin anew behind it, and all keep the WAL since it began."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from psycopg import sql

RIGHT: Final = "pg_read_all_stats"
"""Who has it sees when transactions of other roles began."""


@dataclass(frozen=True, slots=True)
class OldestTransaction:
    """A session's transaction (`pid`), or a prepared one (`gid`). Times are seconds since 1970 by the source's clock.

    `since`: when it began, None where the role may not see that. `query_since`: when its newest statement began.
    """

    pid: int | None
    user: str | None
    since: float | None
    gid: str | None = None
    application: str | None = None
    database: str | None = None
    query_since: float | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Make it of a row of `slot_health.sql`."""
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    @property
    def name(self) -> str:
        """`pid 41822`, or `prepared transaction 'gid'`."""
        return f"prepared transaction {_quote(self.gid)}" if self.gid is not None else f"pid {self.pid}"

    @property
    def remedy(self) -> str:
        """The statement that ends it."""
        if self.gid is None:
            return f"SELECT pg_terminate_backend({self.pid})"
        where = f" in database {self.database}" if self.database else ""
        return f"ROLLBACK PREPARED {_quote(self.gid)}{where}, or COMMIT PREPARED"

    @property
    def whose(self) -> str:
        """Whose it is, as far as that is shown: `me, application psql, database shop`."""
        known = {"application": self.application, "database": self.database}
        return ", ".join([self.user or "not shown", *(f"{kind} {value}" for kind, value in known.items() if value)])


def _quote(text: str | None) -> str:
    # of psycopg: what is not ASCII stays as it is
    return sql.Literal(text).as_string(None)

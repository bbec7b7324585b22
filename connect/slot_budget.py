"""The `source.slot_budget` block: how much WAL the slot may keep on the source, and what happens above that."""

from enum import StrEnum
from typing import Any, Final

from pydantic import Field, field_validator

from cdc.core.settings import Settings, finding_error

LEAST_BYTES: Final = 64 << 20
"""A slot that moves on keeps some segments of 16 MiB all the same."""


class BudgetPolicy(StrEnum):
    """What `cdc follow` does with a slot that is above its budget."""

    WARN = "warn"
    DROP = "drop"


class SlotBudget(Settings):
    max_wal_bytes: int | None = Field(default=None, ge=LEAST_BYTES)
    """How much WAL the slot may keep on the source; what its disk can spare, since Postgres tells nobody how full that
    is. Left out, only the server's `max_slot_wal_keep_size` counts."""
    on_exceeded: BudgetPolicy = BudgetPolicy.WARN
    """What a slot above `max_wal_bytes` leads to, or one that Postgres has given up: `warn`, somebody is told; `drop`,
    `cdc follow` drops the slot, which gives the source its disk back, begins the capture anew, and copies all tables
    again. Nothing is lost but the versions in between, of histories."""

    @field_validator("on_exceeded", mode="before")
    @classmethod
    def _frees_wal(cls, value: Any) -> Any:
        if value == "pause":
            told = (
                "cannot be `pause`: the slot waits for the capture alone, so a follower that rests frees no WAL of the"
                " source; take `warn` or `drop`"
            )
            raise finding_error((), told)
        return value

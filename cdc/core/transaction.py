"""A transaction as the transaction topic tells of it at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.core.position import Lsn


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An END: its offset in the transaction topic ranks the transaction; `counts` says how many changes of which
    `schema.table` belong to it; `lsn` is the commit's; `committed_ms` is the source's clock, for people only."""

    offset: int
    tx_id: int
    lsn: Lsn
    committed_ms: int
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(self.counts.values())

"""The end of a transaction, as a message of the transaction topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.core.position import Lsn


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An END. Its `offset` in the transaction topic ranks the transaction.

    `counts`: `schema.table` → number of its changes in the transaction. `lsn`: of the commit. `committed_ms`: since
    1970 by the source's clock, for display only.
    """

    offset: int
    tx_id: int
    lsn: Lsn
    committed_ms: int
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(self.counts.values())

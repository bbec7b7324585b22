"""A history of postings in Postgres, in batches; each batch names the digest of all rows before it.

The chain is that of the lake's histories: the same functions compute it.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table, TableName
from cdc.lab.correctness.bank import Posting
from cdc.lab.decoding import Session
from cdc.sinks.lake.history.chain import BEGINNING, digest_batch, extend, find_break
from cdc.sinks.lake.history.shape import BATCH, CHAIN, SEQUENCE

BATCH_ROWS: Final = 8
_COLUMNS: Final = tuple(Column(name, Kind.INTEGER) for name in ("request", "account", "amount"))
_TABLE: Final = Table(
    TableName("public", "history"),
    (*_COLUMNS, Column(SEQUENCE, Kind.BIGINT), Column(BATCH, Kind.BIGINT), Column(CHAIN, Kind.TEXT)),
    (SEQUENCE,),
)
_SCHEMA: Final = arrow_schema(_TABLE)
_MAKE: Final = "CREATE TABLE history (request int, account int, amount int, _sequence int, _batch int, _chain text)"


class ChainedHistory:
    """The table, as who keeps it sees it, and as somebody who may write to it."""

    def __init__(self, session: Session, postings: Sequence[Posting]) -> None:
        self._session = session
        session.execute(_MAKE)
        rows = [
            (each.request, each.account, each.amount, number, (number - 1) // BATCH_ROWS + 1)
            for number, each in enumerate(postings, 1)
        ]
        session.cursor().executemany("INSERT INTO history VALUES (%s, %s, %s, %s, %s, '')", rows)
        self.chain_anew()

    def chain_anew(self) -> None:
        """Write the digests of all batches, as they are now."""
        chain = BEGINNING
        for number, _, digest in self._read_batches():
            chain = extend(chain, digest)
            self._session.execute("UPDATE history SET _chain = %s WHERE _batch = %s", (chain, number))

    def swap(self, one: int, other: int) -> None:
        """Give two rows, by their sequence numbers, the amount of each other."""
        self._session.execute(
            "UPDATE history h SET amount = o.amount FROM history o"
            " WHERE (h._sequence, o._sequence) IN ((%(one)s, %(other)s), (%(other)s, %(one)s))",
            {"one": one, "other": other},
        )

    def read(self) -> list[Posting]:
        rows = self._session.execute("SELECT request, account, amount FROM history ORDER BY _sequence")
        return [Posting(*row) for row in rows]

    def find_broken_batch(self) -> int | None:
        """Compute the chain anew; returns the first batch that does not fit."""
        return find_break(self._read_batches())

    def find_end(self) -> str:
        """The end of the chain, as noted."""
        return self._read_batches()[-1][1]

    def _read_batches(self) -> list[tuple[int, str, str]]:
        """Every batch: its number, the chain as noted, and the digest of its rows as they are."""
        rows = self._session.execute("SELECT * FROM history ORDER BY _sequence").fetchall()
        batches = [(number, list(batch)) for number, batch in groupby(rows, key=lambda row: int(row[-2]))]
        return [(number, str(batch[0][-1]), _digest(batch)) for number, batch in batches]


def _digest(rows: Sequence[tuple[Any, ...]]) -> str:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    return digest_batch(pa.Table.from_arrays(columns, schema=_SCHEMA), _TABLE)

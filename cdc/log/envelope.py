"""Debezium's envelope of one change, for who reads few messages, one by one; many are decoded as columns
(`cdc/columns/decoding`)."""

from typing import Generic, TypeVar

import msgspec

Row = TypeVar("Row")


class ChangeSource(msgspec.Struct):
    """The `source` block.

    `lsn`: of the change, above all commits before its own, and below that one. `ts_ms`: of the commit, since 1970 by
    the source's clock. `txId`: None in a message that is no change of a transaction.
    """

    lsn: int
    ts_ms: int = 0
    txId: int | None = None


class ChangeOrigin(msgspec.Struct):
    """An envelope of which no row is asked for."""

    source: ChangeSource


class RowChange(ChangeOrigin, Generic[Row]):
    """An envelope with the new row, of a type that names the columns which are asked for; None of a delete."""

    after: Row | None = None

"""Masks of a table's columns: which there can be, and the columns that they make."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cdc.core.errors import PreconditionError
from cdc.core.mask import Mask, MaskKind, Masks
from cdc.core.table import Column, Kind, TableName

LEAST_SECRET: Final = 16
"""Characters of the secret; a shorter one is guessed."""
_FINGERPRINT_OF: Final = b"cdc: which secret is it"

HASHED: Final = frozenset(
    {
        *(Kind.TEXT, Kind.ENUM, Kind.JSON, Kind.UUID, Kind.LITERAL, Kind.INTERVAL, Kind.OID),
        *(Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ),
    }
)
"""Kinds of which Debezium and a copy have the same text: Postgres's own."""


def find_fingerprint(secret: str) -> str:
    """A text that tells one secret from another, and nothing more of it."""
    return hmac.digest(secret.encode(), _FINGERPRINT_OF, hashlib.sha256).hex()[:16]


def apply_mask(column: Column, mask: Mask | None) -> Column:
    """The column as followers hold it: what is hashed, cut or replaced is text; what is null keeps its type."""
    if mask is None:
        return column
    if mask.kind is MaskKind.NULL:
        return replace(column, mask=str(mask))
    return Column(column.name, Kind.TEXT, number=column.number, mask=str(mask))


def find_mask_refusals(
    name: TableName, columns: Sequence[Column], key: Sequence[str], masks: Masks
) -> list[PreconditionError]:
    """Why some of these masks cannot be; `columns`: as the source has them."""
    by_name = {column.name: column for column in columns}
    refusals = []
    for masked, mask in masks.items():
        what = f"{name}: source.mask names {masked} as {mask.kind}"
        column = by_name.get(masked)
        if column is None:
            refusals.append(
                PreconditionError(
                    f"{what}, which it does not have, or computes", "correct source.mask: was it renamed?"
                )
            )
        elif masked in key and mask.kind is not MaskKind.HASH:
            refusals.append(PreconditionError(f"{what}, and it is part of the key", "a key can be hashed, no more"))
        elif mask.kind is MaskKind.HASH and column.kind not in HASHED and not column.array:
            remedy = "choose null, drop or a word, or hash a column of text, numbers without fractions, or dates"
            refusals.append(PreconditionError(f"{what}, and its type is {column.type or column.kind}", remedy))
        elif mask.kind is MaskKind.LAST_FOUR and not _has_last_four(column):
            remedy = "choose hash, null, drop or a word: only a text has last characters"
            refusals.append(
                PreconditionError(f"{what}, and its type is {column.compared_as or column.type or column.kind}", remedy)
            )
    return refusals


def _has_last_four(column: Column) -> bool:
    # the last characters of char(n) are blanks
    return column.kind is Kind.TEXT and not column.array and column.compared_as != "bpchar"

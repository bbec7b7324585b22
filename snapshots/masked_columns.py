"""Masks of a copy: what is read of a masked column, and what becomes of it before anything is written anywhere.

A value is dropped, cut or replaced by the source itself, and hashed by who reads it: the secret does not go to the
source, whose logs and statistics have the statements. Kafka Connect masks changes in the same way
(`connect/plugin/Masks.java`), by the same texts.
"""

import hashlib
import hmac
from typing import Final

import pyarrow as pa
from psycopg import sql

from cdc.columns.types.copied_fields import Field
from cdc.columns.types.literals import LITERAL
from cdc.columns.types.registry import type_of
from cdc.core.errors import PreconditionError
from cdc.core.mask import Mask, MaskKind
from cdc.core.table import Column

_LAST_FOUR: Final = "CASE WHEN length({0}) < 8 THEN '****' ELSE '****' || right({0}, 4) END"
_WORD: Final = "CASE WHEN {0} IS DISTINCT FROM NULL THEN {1}::text END"


def select_column(column: Column) -> sql.Composed:
    """Make the expression that a copy reads of a column."""
    name, mask = sql.Identifier(column.name), Mask.of_column(column)
    match mask:
        case None:
            return sql.SQL(type_of(column).selected).format(name)
        case Mask(MaskKind.HASH):
            return sql.SQL(LITERAL.selected).format(name)
        case Mask(MaskKind.LAST_FOUR):
            return sql.SQL(_LAST_FOUR).format(name)
        case Mask(MaskKind.WORD, word):
            return sql.SQL(_WORD).format(name, sql.Literal(word))
        case _:
            return sql.Composed([sql.SQL("NULL")])


def read_copied(field: Field, column: Column, secret: bytes) -> pa.Array:
    """Read a column's copied values, and hash those that are to be hashed.

    Raises UnsupportedValueError as the column's type does.
    """
    values = type_of(column).from_copy(field, column)
    mask = Mask.of_column(column)
    return _hash(values, secret) if mask and mask.kind is MaskKind.HASH else values


def _hash(values: pa.Array, secret: bytes) -> pa.Array:
    if not secret:
        raise PreconditionError("a column is hashed, and there is no source.mask_secret", "name it in cdc.yaml")
    texts = values.to_pylist()
    return pa.array(
        [None if text is None else hmac.digest(secret, text.encode(), hashlib.sha256).hex() for text in texts],
        values.type,
    )

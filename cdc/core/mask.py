"""A mask: what followers hold of a column instead of its values, which do not leave the source, or Kafka Connect."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from cdc.core.table import Column

MASKS: Final = "drop, null, hash, last4, or word:TEXT"


class MaskKind(StrEnum):
    DROP = "drop"
    NULL = "null"
    HASH = "hash"
    LAST_FOUR = "last4"
    WORD = "word"


@dataclass(frozen=True, slots=True)
class Mask:
    """What is done to one column; `word`: of a fixed word. `fingerprint`: of the secret of a hash."""

    kind: MaskKind
    word: str = ""
    fingerprint: str = ""

    def __str__(self) -> str:
        """As a column of the lake keeps it."""
        behind = self.word if self.kind is MaskKind.WORD else self.fingerprint
        return f"{self.kind}:{behind}" if behind else str(self.kind)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a mask as in `source.mask`; raises ValueError for another text."""
        kind, colon, behind = text.partition(":")
        if kind not in list(MaskKind) or (kind == MaskKind.WORD) is not bool(colon):
            raise ValueError(f"is not {MASKS}")
        return cls(MaskKind(kind), behind)

    @classmethod
    def of_column(cls, column: Column) -> Self | None:
        """The mask with which a followed column was copied; None if it is as in the source."""
        if not column.mask:
            return None
        kind, _, behind = column.mask.partition(":")
        is_hash = kind == MaskKind.HASH
        return cls(MaskKind(kind), "" if is_hash else behind, behind if is_hash else "")


Masks = Mapping[str, Mask]
"""The masks of one table's columns, by their names."""

"""What a type of Postgres that is text in the lake means there, and which uses of it in a statement that changes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class UseKind(StrEnum):
    """What a statement does with a column, as TYPES.md names it.

    LITERAL: compares it with a text of the statement. MATCHED: LIKE and its kin. GROUPED: asks which values are the
    same, in GROUP BY, DISTINCT, PARTITION BY, UNION. CALCULATED: arithmetic, and functions that are not about texts.
    """

    EQUATED = "="
    LITERAL = "literals"
    MATCHED = "LIKE"
    ORDERED = "order"
    GROUPED = "GROUP BY"
    CALCULATED = "arithmetic"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column is in the lake, the uses that mean something else than in Postgres, and what helps.

    `is_written_so`: whether a literal has the one form that all texts of the column have.
    """

    what: str
    uses: frozenset[UseKind]
    remedy: str
    is_written_so: Callable[[str], object] = lambda _: None


AS_TEXTS: Final = frozenset({UseKind.EQUATED, UseKind.GROUPED, UseKind.ORDERED})
CALCULATED: Final = frozenset({UseKind.CALCULATED})
AS_NUMBERS: Final = AS_TEXTS | CALCULATED
IN_SOURCE: Final = "keep what is compared in a column of its own in the source"

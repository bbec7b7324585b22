"""Templates of a document's id and routing, `{tenant}:{id}`: texts of a row's columns, put together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from cdc.core.table import Column, Kind

if TYPE_CHECKING:
    import pyarrow as pa

KINDS: Final = frozenset(
    {Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.OID, Kind.BOOLEAN, Kind.TEXT, Kind.UUID, Kind.ENUM, Kind.DATE}
)
"""Of columns in a template: their values have one text each."""
_COLUMN: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """Fixed texts and, between each two of them, a column."""

    fixed: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template. Raises ValueError, with half a sentence, for a text that names no column, or badly."""
        parts = _COLUMN.split(text)
        fixed, columns = tuple(parts[::2]), tuple(parts[1::2])
        if not columns or any("{" in each or "}" in each for each in fixed):
            raise ValueError("names columns in braces, {tenant}:{id}, say")
        if not all(fixed[1:-1]):
            raise ValueError("has nothing between two columns, whose texts could then not be told apart")
        return cls(fixed, columns)

    def write(self, rows: "pa.Table") -> "pa.Array":
        """The texts of rows, of which two are the same only if all columns are; a null is as an empty text."""
        # reading the configuration imports this file, and nothing of Arrow
        import pyarrow.compute as pc

        texts = [pc.fill_null(_to_text(rows[name]), "") for name in self.columns]
        if len(texts) > 1:
            texts = [self._escape(each) for each in texts]
        parts: list[pa.Array | str] = [self.fixed[0]]
        for text, behind in zip(texts, self.fixed[1:], strict=True):
            parts += [text, behind]
        return pc.binary_join_element_wise(*parts, "")

    def _escape(self, texts: "pa.Array") -> "pa.Array":
        import pyarrow.compute as pc

        # what stands between the columns must not stand in one of them, as with the percent signs of URLs
        for sign in ("%", *sorted(set("".join(self.fixed[1:-1])) - {"%"})):
            texts = pc.replace_substring(texts, sign, "".join(f"%{byte:02X}" for byte in sign.encode()))
        return texts


def find_unfit(columns: Sequence[Column]) -> Sequence[str]:
    """The columns that no template takes."""
    return [each.name for each in columns if each.array or each.kind not in KINDS]


def _to_text(values: "pa.ChunkedArray | pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pc.cast(array, pa.string())

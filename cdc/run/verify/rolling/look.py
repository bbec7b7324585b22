"""What one look reads of one side of a table, and what it finds there."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from cdc.columns.rows.compare import DIFFERING, KeyDifference
from cdc.columns.rows.row_prints import Names, StoredRows, print_rows, select_among
from cdc.core.errors import CdcError
from cdc.run.verify.rolling.comparison import NameDifferences, concat_names
from cdc.run.verify.rolling.print_files import PrintFiles

MOST_TEXTS: Final = 10_000
"""Rows of which a later look keeps the texts, the same of both sides: to tell what differs, and to name it."""
Texts = dict[bytes, tuple[bytes, bytes | None]]
"""By the print of a name: the name itself and its document."""


@dataclass(frozen=True, slots=True)
class PrintedSide:
    """What was read of one side: prints, and of few rows their texts. `nulls`: see `print_rows`.

    `only`, of `take`: names in order, so that each side keeps the texts of the same ones.
    """

    files: PrintFiles
    nulls: re.Pattern[bytes]
    texts: Texts = field(default_factory=dict)

    def take(self, rows: StoredRows, only: Names | None) -> None:
        prints = print_rows(rows, self.nulls)
        if only is not None:
            names = rows.names()
            for place in select_among(prints, only[:MOST_TEXTS]).nonzero()[0].tolist():
                self.texts[prints[place, :2].tobytes()] = names[place], rows.documents[place]
            prints = prints[select_among(prints, only)]
        self.files.is_log |= rows.is_log
        self.files.add(prints)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found of a follower, with the texts of both sides; or the `error` that it met there.

    `columns`: what its documents hold. `unsure`: names whose documents differ, and whose texts were not kept.
    """

    found: NameDifferences = field(default_factory=NameDifferences)
    source: Texts = field(default_factory=dict)
    follower: Texts = field(default_factory=dict)
    columns: Sequence[str] = ()
    error: CdcError | None = None
    unsure: Names = field(default_factory=lambda: concat_names([]))

    def among(self, names: Names) -> "Look":
        """What was found of these names."""
        kinds = {kind: each[select_among(each, names)] for kind, each in self.found.kinds.items()}
        moved, unsure = (each[select_among(each, names)] for each in (self.found.moved, self.unsure))
        return replace(self, found=replace(self.found, kinds=kinds, moved=moved), unsure=unsure)

    def check_texts(self) -> "Look":
        """The same without rows whose documents differ and whose columns do not: one of them is older than a change
        of the table. Of rows whose texts were not kept, nobody can tell yet."""
        names = self.found.kinds.get(DIFFERING)
        if names is None:
            return self
        known = np.array([name.tobytes() in self.source and name.tobytes() in self.follower for name in names])
        differ = [bool(self._find_columns(name.tobytes())) for name in names[known]]
        kinds = {kind: each for kind, each in self.found.kinds.items() if kind != DIFFERING}
        if any(differ):
            kinds[DIFFERING] = names[known][np.array(differ)]
        return replace(self, found=replace(self.found, kinds=kinds), unsure=names[~known])

    def describe(self, most: int) -> tuple[KeyDifference, ...]:
        """At most so many names that differ, as keys, with the columns that do: where texts were kept."""
        every = ((kind, name.tobytes()) for kind, names in self.found.kinds.items() for name in names)
        known = ((kind, name) for kind, name in every if name in self.source or name in self.follower)
        return tuple(self._describe(kind, name) for kind, name in islice(known, max(most, 0)))

    def name_keys(self, names: Names) -> list[dict[str, str | None]]:
        """The keys of these names, where texts were kept: of few names, all that have a row on either side."""
        return [parse_name(self._find_text(name)) for name in map(np.ndarray.tobytes, names) if self._find_text(name)]

    def _find_text(self, name: bytes) -> bytes:
        return (self.source.get(name) or self.follower.get(name) or (b"", None))[0]

    def _describe(self, kind: str, name: bytes) -> KeyDifference:
        return KeyDifference(
            parse_name(self._find_text(name)), kind, self._find_columns(name) if kind == DIFFERING else ()
        )

    def _find_columns(self, name: bytes) -> tuple[str, ...]:
        """The columns that differ; all where a document is none."""
        try:
            left, right = (json.loads(side[name][1] or b"") for side in (self.source, self.follower))
            return tuple(column for column in self.columns if left.get(column) != right.get(column))
        except (ValueError, AttributeError):
            return tuple(self.columns)


def parse_name(text: bytes) -> dict[str, str | None]:
    """The columns of a key, or the id of a document that has another form."""
    try:
        key = json.loads(text)
    except ValueError:
        key = text.decode(errors="replace")
    if not isinstance(key, dict):
        return {"_id": str(key)}
    return {name: None if value is None else str(value) for name, value in key.items()}

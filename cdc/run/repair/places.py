"""What the followers hold of some keys: of the lake compared with the source, of the others with the lake at their cut.

Rows are compared as of one moment each, while others write. Keys that changed around that moment are not known: another
round tells.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Mask
from cdc.columns.rows.documents import documents, key_documents
from cdc.columns.rows.held import Held
from cdc.columns.rows.join_fingerprints import are_among
from cdc.columns.rows.row_fingerprints import row_bits
from cdc.core.position import Lsn
from cdc.core.table import Table, TableName
from cdc.log.names import latest_topic
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake import layout
from cdc.sinks.lake.feed.keyed_rows import find_rows
from cdc.sinks.lake.feed.patch import find_changed_keys
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.latest.read import find_ends, read_since
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.opensearch.settings import ClusterSettings
from cdc.sinks.search.lookup import read_documents

MOST_CUTS: Final = 10_000
"""Cuts that are looked through for those around an LSN."""
Document = Mapping[str, Any]
NONE: Final[Document] = {}
"""What stands for no row."""
TWICE: Final[Document] = {"": "several rows"}
Documents = Sequence[Document | None]
"""What a place has of each key, in the keys' order; None where that is not known."""


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """Of some keys, in their order: which differ in a follower, and of which that is not known."""

    differs: Mask
    unknown: Mask

    def after(self, before: "KeyVerdict | None") -> "KeyVerdict":
        """The verdict of several rounds: a key that was equal in one is known."""
        return self if before is None else KeyVerdict(self.differs, self.unknown & (before.differs | before.unknown))

    @property
    def is_open(self) -> Mask:
        return self.differs | self.unknown


@dataclass(frozen=True, slots=True)
class CutsAround:
    """The last cut before an LSN, and the first one behind it, or the last of all if nothing was committed since."""

    before: Cut
    behind: Cut

    @classmethod
    def find(cls, pipeline: Pipeline, since: Cut, lsn: Lsn) -> "CutsAround":
        """`since`: a cut before the LSN."""
        cuts = [since, *pipeline.table_cuts.list_after(since, MOST_CUTS)]
        before = [cut for cut in cuts if cut.position.lsn < lsn]
        behind = [cut for cut in cuts if cut.position.lsn > lsn]
        return cls(before[-1] if before else since, behind[0] if behind else cuts[-1])


@dataclass(frozen=True, slots=True)
class Places:
    """The followers of a pipeline, asked for keys; `since`: where their topics ended before a repair."""

    pipeline: Pipeline
    names: Sequence[str]
    since: dict[TableName, Mapping[int, int]] = field(default_factory=dict)

    def note_ends(self, tables: Sequence[TableName]) -> None:
        """What a repair writes into the topics of these tables comes behind their present ends."""
        if any(isinstance(each, LatestSettings) for each in self.pipeline.settings.followers.values()):
            log = self.pipeline.settings.log
            self.since.update({name: find_ends(log, latest_topic(log.prefix, name)) for name in tables})

    def select(self, table: Table) -> list[str]:
        """The followers that hold the table."""
        s = self.pipeline.settings
        return [name for name in self.names if name == self.pipeline.lake_name or s.holds_table(name, table)]

    def compare(self, table: Table, keys: pa.Table, rows: pa.Table, around: CutsAround) -> Mapping[str, KeyVerdict]:
        """Compare all followers that hold the table: the lake with its rows in the source, at the LSN between cuts."""
        lake = self.pipeline.lake_name
        return {
            name: self._compare_lake(table, keys, rows, around)
            if name == lake
            else self.compare_follower(name, table, keys)
            for name in self.select(table)
        }

    def _compare_lake(self, table: Table, keys: pa.Table, rows: pa.Table, around: CutsAround) -> KeyVerdict:
        found, moved = self._read_lake(table, keys, around.behind), self._find_moved(table, keys, around)
        return _judge(align(rows, table, keys), found, moved)

    def compare_follower(self, name: str, table: Table, keys: pa.Table) -> KeyVerdict:
        """Compare a follower behind the lake with the table or view at the cut where it stands."""
        follower, feed = self.pipeline.fed[name], self.pipeline.open_feed(name)
        at = follower.position()
        found = self._read(name, table, keys)
        # after its documents: a batch that it has begun may be among them
        beyond = follower.furthest()
        before, behind = (feed.find_cut(each) if each else None for each in (at, beyond))
        if before is None or behind is None:
            return _know_nothing(keys)
        wanted = self._read_lake(table, keys, before, follower.held(table))
        return _judge(wanted, found, self._find_moved(table, keys, CutsAround(before, behind)))

    def _read_lake(self, table: Table, keys: pa.Table, cut: Cut, held: Held | None = None) -> Documents:
        version = cut.versions.get(str(table.name))
        opened = None if version is None else layout.open_table(self.pipeline.lake, table.name, version)
        if opened is None:
            return [None] * len(keys)
        storage = self.pipeline.lake.table_storage(table.name)
        return align(find_rows(storage, opened[0].snapshot, table, keys), table, keys, held)

    def _read(self, name: str, table: Table, keys: pa.Table) -> Documents:
        settings = self.pipeline.settings.followers[name]
        if isinstance(settings, LatestSettings):
            return self._read_topic(table, keys)
        assert isinstance(settings, ClusterSettings)
        default = self.pipeline.name if settings.kind == "search" else f"{self.pipeline.name}-{name}"
        found = read_documents(settings, settings.prefix or default, table, keys)
        return [NONE if each is None else each for each in found]

    def _read_topic(self, table: Table, keys: pa.Table) -> Documents:
        log = self.pipeline.settings.log
        newest = read_since(log, latest_topic(log.prefix, table.name), self.since[table.name])
        wanted = [text.encode() for text in key_documents(keys, table).to_pylist()]
        return [json.loads(newest[key] or b"{}") if key in newest else None for key in wanted]

    def _find_moved(self, table: Table, keys: pa.Table, around: CutsAround) -> Mask:
        """The keys that changed between two cuts, or may have."""
        name, since, until = str(table.name), around.before, around.behind
        log = None
        if name in until.versions and until.ids.get(name) == since.ids.get(name):
            log = layout.open_owned_log(self.pipeline.lake, table.name, until.versions[name])
        if log is None:
            return _know_nothing(keys).unknown
        storage = self.pipeline.lake.table_storage(table.name)
        changed = find_changed_keys(log, storage, table, since.versions[name], until.versions[name])
        return _know_nothing(keys).unknown if changed is None else are_among(row_bits(keys, table), changed)


def align(rows: pa.Table, table: Table, keys: pa.Table, held: Held | None = None) -> Documents:
    """The documents of rows, in the order of the keys, as a follower holds them; NONE where there is no row."""
    write: Callable[[pa.Table, Table], pa.Array] = held.write if held else documents
    texts = write(rows, table).to_pylist() if rows.num_rows else []
    found = dict[tuple[int, int], Document]()
    for bits, text in zip(row_bits(rows, table).pairs(), texts, strict=True):
        found[bits] = TWICE if bits in found else json.loads(text)
    return [found.get(bits, NONE) for bits in row_bits(keys, table).pairs()]


def _judge(wanted: Documents, found: Documents, moved: Mask) -> KeyVerdict:
    pairs = [*zip(wanted, found, strict=True)]
    unknown = moved | np.array([None in pair for pair in pairs], np.bool_)
    return KeyVerdict(np.array([one != other for one, other in pairs], np.bool_) & ~unknown, unknown)


def _know_nothing(keys: pa.Table) -> KeyVerdict:
    return KeyVerdict(np.zeros(len(keys), np.bool_), np.ones(len(keys), np.bool_))

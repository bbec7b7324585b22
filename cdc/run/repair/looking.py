"""Finds the keys that differ as `cdc verify` does: source and followers are read once in this process, without Spark.

Keys that change at each look are repaired, too: the rounds of the repair tell whether they differ. What looks cannot
tell, Spark tells (`finding.py`), slower: more keys than a look keeps the texts of, names that no key of the table has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from psycopg import Connection

from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import Table
from cdc.run.pipeline import Pipeline
from cdc.run.repair.finding import join_keys, too_many
from cdc.run.repair.source_rows import check_keys, read_keys
from cdc.run.scratch import open_scratch
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.report import Verdict
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.run.verify.rolling.table_comparison import compare_moving
from cdc.run.verify.rolling.table_looks import TableLooks

LOOKS: Final = 2
"""At all rows, then at those that differ or have moved. Each reads source and followers as a whole."""


@dataclass(slots=True)
class _Pace(DutyCycle):
    """Works all the time; `look` is called while it waits for a follower, and raises when that is in vain."""

    look: Callable[[], None] = lambda: None

    def check(self) -> None:
        self.look()


@dataclass(frozen=True, slots=True)
class LookingFinder:
    """Compares tables of the source with followers that go on.

    `most`: keys of a table. `patience`: seconds in which a follower has to have what the source was read with; `look`:
    called while it has not.
    """

    pipeline: Pipeline
    connection: Connection[Any]
    most: int
    patience: float
    look: Callable[[], None]

    def find(self, table: Table, readers: Mapping[str, FollowerReader]) -> tuple[Lsn, pa.Table] | None:
        """The keys of a table that differ in any of these followers, and the LSN that all of them have reached.

        None if only Spark can tell. Raises CdcError when the table cannot be compared now, or be repaired by its keys.
        """
        for stop in filter(None, (reader.stops().get(table.name) for reader in readers.values())):
            raise PreconditionError(stop.what, stop.remedy)
        scratch = open_scratch(self.pipeline.state)
        looks = TableLooks(
            self.pipeline, self.connection, table, readers, scratch, _Pace(look=self.look), self.patience
        )
        lsn, verdicts = compare_moving(looks, self.most + 1, settles=True, most_looks=LOOKS)
        refusal = check_keys(table)
        if refusal and any(each.comparison and not each.comparison.equal for each in verdicts.values()):
            raise refusal
        named = [self._list_named(table, verdict) for verdict in verdicts.values()]
        if None in named:
            return None
        names = [name for part in named for name in part or ()]
        if not names:
            return lsn, join_keys([], table)
        keys = read_keys(self.connection, table, names, self.pipeline.settings.source.mask_key)
        return None if keys is None else (lsn, join_keys([keys], table))

    def _list_named(self, table: Table, verdict: Verdict) -> Sequence[Mapping[str, str | None]] | None:
        """The names of the keys that differ in one follower, and of those that change at each look; or None."""
        if verdict.stopped:
            raise verdict.stopped
        found = verdict.comparison
        if found is None or (verdict.moved and verdict.left is None):
            return None
        count = found.different
        if count > self.most:
            raise too_many(table.name, f"of {table.name} differ", self.most)
        names = [*(each.key for each in found.keys), *(verdict.left or ())]
        # a name of another form is that of no row
        is_whole = len(found.keys) == count and all(name.keys() == {*table.key} for name in names)
        return names if is_whole else None

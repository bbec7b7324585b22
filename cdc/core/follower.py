"""What a follower is."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName

Copy_contra = TypeVar("Copy_contra", contravariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Follower(Protocol[Copy_contra, Batch_contra]):
    """Something that holds the tables of the source as they were at a commit, and says at which.

    The contract, which `tests/contract` holds every follower to:

    - `prepare` makes room for the tables. Called again it changes nothing; a table that is there and is not the
      follower's own is refused.
    - `load` puts a copy in place of whatever the table held, together with its bookmark: either both are there
      afterwards or neither. Loading again replaces.
    - `apply` brings every table of the batch to `position`, which is stored with the data. A batch holds whole
      transactions, in order, and begins at or before the follower's position: whatever of it the follower has already
      is left out, so the same batch may come twice, from anywhere, and after being cut off anywhere. After an error
      some tables may be ahead of others; the next batch reaches at least as far and brings them together.
    - `bookmarks` says which tables are loaded; changes of commits that a table's bookmark covers are not applied to it.
    - `position` is the last one that *every* table has reached, or None before the first batch. What readers see is
      never newer in one table and older in another at a position.
    - What a table holds at a position equals `cdc.core.model.apply` over its copy and its changes up to there.

    `Copy_contra` and `Batch_contra` are what this kind of follower takes in: Python values, DataFrames, files.
    """

    def prepare(self, tables: Sequence[Table]) -> None: ...

    def load(self, table: Table, copy: Copy_contra, bookmark: Bookmark) -> None: ...

    def apply(self, batch: Batch_contra, position: Position) -> None: ...

    def bookmarks(self) -> dict[TableName, Bookmark]: ...

    def position(self) -> Position | None: ...

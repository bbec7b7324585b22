"""The contract of a follower."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from cdc.core.position import Bookmark, Position
from cdc.core.table import Table, TableName

Copy_contra = TypeVar("Copy_contra", contravariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Follower(Protocol[Copy_contra, Batch_contra]):
    """Holds the tables of the source as of a commit, and knows which commit.

    The contract, which `tests/contract` holds every follower to:

    - `prepare` creates the tables. It is idempotent, and refuses an existing table that is not the follower's own.
    - `load` replaces a table's contents by a copy and stores the copy's bookmark, both or neither.
    - `apply` brings every table of the batch to `position` and stores the position with the data. A batch holds whole
      transactions, in order, and begins at or before the follower's position. `apply` is idempotent: it skips the
      changes that it has applied already, so a batch may be repeated after a crash at any point. After an error some
      tables may be ahead of others; the next batch reaches at least as far, and brings them together. A follower may
      return an outcome to its own stream.
    - `bookmarks` returns the loaded tables. Changes of commits that a table's bookmark covers are not applied to it.
    - `position` is the last position that *every* table has reached, None before the first batch. At a position,
      readers never see one table newer than another.
    - At a position a table's rows are what the model (`tests/support/model.py`) makes of its copy and its changes up to
      there.

    `Copy_contra` and `Batch_contra` are this follower's forms of a copy and a batch: Python values, DataFrames, files.
    """

    def prepare(self, tables: Sequence[Table]) -> None: ...

    def load(self, table: Table, copy: Copy_contra, bookmark: Bookmark) -> None: ...

    def apply(self, batch: Batch_contra, position: Position) -> object: ...

    def bookmarks(self) -> dict[TableName, Bookmark]: ...

    def position(self) -> Position | None: ...

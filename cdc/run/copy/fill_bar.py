"""Shows how far a follower behind the lake is filled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from cdc.columns.feed import FedFollower
from cdc.core.table import TableName
from cdc.progress import SPARKS_ROWS, Progress
from cdc.run.spark.job_progress import track_count

Advanced = Callable[[int], None]


@contextmanager
def open_fill_bar(
    progress: Progress,
    name: str,
    follower: FedFollower,
    table: TableName,
    rows: int,
    advanced: Advanced = lambda count: None,
) -> Iterator[None]:
    """A bar of a table's copy into a follower; `advanced` hears of so many rows more, too."""

    def tell(count: int) -> None:
        advance(count)
        advanced(count)

    # by the follower's own count of writes: Spark reports rows only when a task ends, after half a minute of silence
    count = partial(follower.write_count, table)
    with progress.bar(f"{name} {table}", rows, waiting_for=SPARKS_ROWS) as advance, track_count(count, tell, rows):
        yield

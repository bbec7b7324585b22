"""The settings of a lake in `cdc.yaml`."""

from typing import Literal

from pydantic import Field

from cdc.core.settings import Settings


class DeltaSettings(Settings):
    kind: Literal["delta"]
    path: str = Field(min_length=1)
    """The lake: a folder or a URI that Spark can write; a table lies at `<path>/<schema>/<table>`."""
    batch_changes: int = Field(default=200_000, ge=1)
    """A batch takes whole transactions until it holds this many changes."""
    small_run_changes: int = Field(default=20_000, ge=0)
    """A run of up to this many changes is read and folded by the driver itself; a larger one is a Spark job."""
    history_hours: float = Field(default=4, ge=0)
    """For how long the past of a table, and what changed in it, can still be read; longer where a follower needs it."""
    parallel_tables: int = Field(default=8, ge=1)
    """So many tables are committed at a time: their disks' waits overlap."""

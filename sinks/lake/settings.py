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
    parallel_tables: int = Field(default=2, ge=1)

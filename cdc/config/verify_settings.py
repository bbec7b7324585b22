"""The `verify` block: how followers are compared with the source beside the work."""

from typing import Final

from pydantic import Field

from cdc.core.settings import Settings

LEAST_SECONDS: Final = 10


class VerifySettings(Settings):
    every_seconds: int | None = Field(default=None, ge=LEAST_SECONDS)
    """How often `cdc follow` compares each table of each follower with the source, beside its streams; left out, it
    does not. `cdc verify --every` does the same in a process of its own."""
    share: float = Field(default=0.2, gt=0, le=1)
    """The part of the time for which such a verification works, and asks source and followers for rows; it rests for
    the other part. It works in one thread."""

"""Since when each thing is in its state: kept from one document to the next; no I/O."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from msgspec.structs import replace

from cdc.run.status.things import State


class Lasting(Protocol):
    """What has a state, and a time since when."""

    @property
    def state(self) -> State: ...
    @property
    def since(self) -> datetime | None: ...


Thing = TypeVar("Thing", bound=Lasting)


def keep_since(now: Mapping[str, Thing], before: Mapping[str, Thing], at: datetime) -> dict[str, Thing]:
    """The same things with the time since when each is in its state: as before, or from `at` on.

    A time that the thing has by itself stays. Without a thing before, nobody knows it.
    """
    return {name: _keep_since(thing, before.get(name), at) for name, thing in now.items()}


def _keep_since(thing: Thing, last: Thing | None, at: datetime) -> Thing:
    if thing.since is not None or last is None:
        return thing
    kept: Thing = replace(thing, since=last.since if last.state == thing.state else at)  # type: ignore[type-var]
    return kept

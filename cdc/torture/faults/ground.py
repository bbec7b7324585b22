"""What faults happen to."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.torture.commands import FollowProcess
from cdc.torture.schedule import PlannedFault
from cdc.torture.site import TortureSite


class LeftOutError(PreconditionError):
    """This machine does not allow a fault."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The site, and who follows."""

    site: TortureSite
    follow: FollowProcess

    def table(self, fault: PlannedFault) -> TableName:
        """The table that a fault hits."""
        return TableName("public", fault.target)


Cause = Callable[[Ground, PlannedFault], AbstractContextManager[None]]
"""Begins a fault, which lasts as long as the context, and ends what an operator would notice at once: a part that was
killed is started again, as a service manager does."""

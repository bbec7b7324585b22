"""Settings of all followers behind the lake."""

from pydantic import Field

from cdc.core.settings import Settings
from cdc.core.table import TableName


class FedSettings(Settings):
    leave_out: list[str] = Field(default_factory=list)
    """Tables of the lake that this follower does not hold, as `schema.table`: those without a key, for instance."""

    def holds(self, table: TableName) -> bool:
        return table not in map(TableName.parse, self.leave_out)

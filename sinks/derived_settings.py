"""Settings of all followers behind the lake."""

from collections.abc import Iterator

from pydantic import Field

from cdc.core.settings import Settings
from cdc.core.table import TableName

SettingPlace = tuple[str, ...]
"""Where in a follower's block a setting stands."""


class FedSettings(Settings):
    tables: list[str] = Field(default_factory=list)
    """The tables and views that this follower holds, as `schema.table`; without any, all tables and no view."""
    leave_out: list[str] = Field(default_factory=list)
    """Tables of the lake that this follower does not hold, as `schema.table`: those without a key, for instance."""

    def named(self) -> Iterator[tuple[SettingPlace, str]]:
        """The tables and views that the follower holds by name, and where each is named."""
        for text in self.tables:
            yield ("tables",), text

    def holds(self, table: TableName) -> bool:
        """Does this follower hold the table, by its name?"""
        if table in map(TableName.parse, self.leave_out):
            return False
        return not self.tables or self.names(table)

    def names(self, table: TableName) -> bool:
        """Is the table, or view, in the follower's own list?"""
        return any(TableName.parse(text) == table for _, text in self.named())

"""Tables that options name."""

from typing import TYPE_CHECKING

from cdc.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc.core.table import TableName


def parse_tables(invocation: Invocation, option: str, names: "Sequence[str]") -> "list[TableName]":
    """The tables of an option's texts. Raises ConfigurationError for one that the settings do not name."""
    from cdc.core.errors import ConfigurationError
    from cdc.core.table import TableName

    settings, tables = invocation.settings, [TableName.parse(name) for name in names]
    for name in tables:
        if name not in settings.selection and not (option == "--table" and settings.is_view(name)):
            raise ConfigurationError(f"{name} is none of source.tables", f"name it there, or correct {option}")
    return tables

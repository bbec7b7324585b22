"""Names of tables and columns as regular expressions in Debezium's lists, each of which matches this name only.

Debezium cuts a list at its commas, colons and semicolons first, wherever they stand, and trims what is between them:
so none of a name's own is left in a pattern, nor any other character that means something to Java or to Connect.
"""

import re
from collections.abc import Sequence
from typing import Final

from cdc.core.table import TableName

_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_]")
_EXACT: Final = "(?-i)"
"""Debezium ignores case else, and another table may have the same letters."""
_BEFORE_DOT: Final = r"(?=\.)"


def table_pattern(table: TableName) -> str:
    """Make the pattern of a table."""
    return _EXACT + _escape(f"{table.schema}.{table.table}")


def key_patterns(table: TableName, columns: Sequence[str]) -> str:
    """Make the entry of `message.key.columns` for one table: the columns of its key.

    Debezium joins table and column by a dot, which then stands for any character. That matters where a column has a dot
    itself: `t` with `a.b` would be `t_a` with `b`, too.
    """
    has_dot = any("." in column for column in columns)
    return f"{table_pattern(table)}{_BEFORE_DOT if has_dot else ''}:{','.join(map(_escape, columns))}"


def column_pattern(table: TableName, column: str) -> str:
    """Make the pattern of a column."""
    return rf"{table_pattern(table)}\.{_escape(column)}"


def _escape(name: str) -> str:
    # not as `re.escape` does: a backslash before a space or a comma is cut off, or is none, to Debezium
    return _SPECIAL.sub(lambda found: r"\." if found[0] == "." else rf"\x{{{ord(found[0]):x}}}", name)

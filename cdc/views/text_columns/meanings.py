"""What types of Postgres that are text in the lake mean in a view, as their records say, and what helps."""

import json
import re
from typing import Final

from cdc.columns.types.decimals import AS_DECIMAL
from cdc.columns.types.registry import TYPES, type_of
from cdc.columns.types.text_meaning import CALCULATED, Meaning
from cdc.core.table import NUMERIC, Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import CHAIN, SUFFIX

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OF_HISTORY: Final = re.compile(rf"(.+){SUFFIX}(?:_\d+)?", re.DOTALL)


def find_meaning(column: Column) -> Meaning | None:
    """What the column's text means in the lake; None where it is no text, or text in Postgres, too."""
    if column.compared_as:
        return TYPES[column.kind].compared_otherwise[column.compared_as]
    return type_of(column).meaning


def find_addition_meaning(column: Column) -> Meaning | None:
    """What a numeric is in the lake, where the order of addition decides its sum's digits; None where it does not."""
    if column.kind is Kind.DOUBLE and column.type == NUMERIC:
        return Meaning("is followed as double (source.column_types)", CALCULATED, AS_DECIMAL)
    return find_meaning(column) if column.kind is Kind.NUMERIC else None


def write_remedy(meaning: Meaning, table: Table, column: str) -> str:
    """What helps, for a column of this table or of its history."""
    followed, key = _to_yaml(str(find_followed(table))), _to_yaml(column)
    return meaning.remedy.format(name=column, table=followed, column=key)


def find_followed(table: Table) -> TableName:
    """The table of the source that has the columns of this one, which is that table or an epoch of its history."""
    own = _OF_HISTORY.fullmatch(table.name.table) if CHAIN in table.column_names else None
    return TableName(table.name.schema, own[1]) if own else table.name


def _to_yaml(name: str) -> str:
    """A name as a key of YAML, between braces, too."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)

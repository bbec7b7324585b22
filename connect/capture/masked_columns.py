"""Masks for our converter in Kafka Connect, which masks a value before a record is made of it (`Masks.java`)."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from psycopg import Connection

from cdc.connect.capture.name_patterns import column_pattern
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.relation import read_shapes
from cdc.core.errors import PreconditionError
from cdc.core.mask import MaskKind, Masks
from cdc.core.table import Table, TableName

MASKS: Final = "cdc.connect.Masks"
PLUGIN_REMEDY: Final = "`cdc plugin FOLDER` writes its jar: put it beside Debezium's, and start Connect again"
_PLAIN: Final = "plain"
_SEPARATING: Final = re.compile(r"[\x00-\x1f%]")


@dataclass(frozen=True, slots=True)
class MaskedTable:
    """The masks of a table, and its columns that have none. Whatever column is neither is sent as null."""

    masks: Masks
    plain: Sequence[str]


def read_masked_tables(
    connection: Connection, source: SourceSettings, tables: Sequence[TableName], followed: Mapping[TableName, Table]
) -> dict[TableName, MaskedTable]:
    """Read the columns of tables with masks; `followed`: as they were copied.

    No column counts as plain while a masked one is missing, or was one under another name: it was renamed, perhaps, and
    its values would be sent by the new name.
    """
    choices = source.choices
    masked = [name for name in tables if choices.masks_of(name) or (name in followed and followed[name].is_masked)]
    found = {}
    for name, shape in read_shapes(connection, masked).items():
        masks, names = choices.masks_of(name), {column.number: column.name for column in shape.columns}
        is_known = masks.keys() <= {*names.values()} and not find_renamed(followed.get(name), names, masks)
        found[name] = MaskedTable(masks, [each for each in names.values() if each not in masks] if is_known else [])
    return found


def find_renamed(followed: Table | None, names: Mapping[int, str], masks: Masks) -> dict[str, str]:
    """Columns that were copied with a mask and have another name now, without one: their old name → the new one."""
    columns = [*followed.dropped, *(each for each in followed.columns if each.mask)] if followed else []
    return {
        column.name: now
        for column in columns
        if (now := names.get(column.number, column.name)) != column.name and now not in masks
    }


def check_has_masks(plugins: Set[str], tables: Mapping[TableName, MaskedTable]) -> None:
    """Raise PreconditionError when these tables have masks and Connect lacks our class."""
    if tables and MASKS not in plugins:
        named = ", ".join(map(str, tables))
        raise PreconditionError(f"Kafka Connect lacks {MASKS}, which masks columns of {named}", PLUGIN_REMEDY)


def build_mask_properties(
    source: SourceSettings, capture: CaptureSettings, tables: Mapping[TableName, MaskedTable]
) -> dict[str, str]:
    """Build the properties of masks: of our converter, and Debezium's own list of columns that it leaves out."""
    if not tables:
        return {}
    dropped = [column_pattern(name, each) for name, table in tables.items() for each in _list_dropped(table)]
    reference = capture.mask_secret_reference
    secret = reference or (source.mask_secret.get_secret_value() if source.mask_secret else None)
    return {
        "exact.masks": "\n".join(sorted(line for name, table in tables.items() for line in _lines(name, table))),
        # a name that Debezium hides where it logs its configuration
        **({"exact.mask.secret": secret} if secret else {}),
        # also where the publication has a list of columns: that is the source's, and may be altered
        **({"column.exclude.list": ",".join(dropped)} if dropped else {}),
    }


def list_name(name: str) -> str:
    """A name or word without the characters that stand between them in lines; the Java classes write it so, too."""
    return _SEPARATING.sub(lambda found: f"%{ord(found[0]):02x}", name)


def _list_dropped(table: MaskedTable) -> list[str]:
    return [column for column, mask in table.masks.items() if mask.kind is MaskKind.DROP]


def _lines(name: TableName, table: MaskedTable) -> list[str]:
    def line(*parts: str) -> str:
        return "\t".join(list_name(part) for part in (str(name), *parts))

    masked = [
        line(column, str(mask.kind), *([mask.word] if mask.kind is MaskKind.WORD else []))
        for column, mask in table.masks.items()
    ]
    # a table without a line is not masked
    return [*masked, *(line(column, _PLAIN) for column in table.plain)] or [line("", _PLAIN)]

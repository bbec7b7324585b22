"""What types of Postgres that are text in the lake mean there, and which uses of them in a statement that changes."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_interface, ip_network
from typing import Final

from cdc.core.table import NUMERIC, Column, Kind, Table, TableName
from cdc.sinks.lake.history.shape import CHAIN, SUFFIX


class UseKind(StrEnum):
    """What a statement does with a column.

    LITERAL: compares it with a text of the statement. MATCHED: LIKE and its kin. GROUPED: asks which values are the
    same, in GROUP BY, DISTINCT, PARTITION BY, UNION. CALCULATED: arithmetic, and functions that are not about texts.
    """

    EQUATED = "equated"
    LITERAL = "literal"
    ORDERED = "ordered"
    GROUPED = "grouped"
    MATCHED = "matched"
    CALCULATED = "calculated"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column is in the lake, the uses that mean something else than in Postgres, and what helps.

    `is_written_so`: whether a literal has the one form that all texts of the column have.
    """

    what: str
    uses: frozenset[UseKind]
    remedy: str
    is_written_so: Callable[[str], bool] = lambda _: False

    def write_remedy(self, table: Table, column: str) -> str:
        """What helps, for a column of this table or of its history."""
        followed, key = _to_yaml(str(find_followed(table))), _to_yaml(column)
        return self.remedy.format(name=column, table=followed, column=key)


_SAME: Final = frozenset({UseKind.EQUATED, UseKind.GROUPED})
_NUMBERS: Final = _SAME | {UseKind.ORDERED, UseKind.CALCULATED}
_CALCULATED: Final = frozenset({UseKind.CALCULATED})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d\.\d{6}")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,7}")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OF_HISTORY: Final = re.compile(rf"(.+){SUFFIX}(?:_\d+)?", re.DOTALL)
_IN_SOURCE: Final = "keep what is compared in a column of its own in the source"


def _is_inet(text: str) -> bool:
    try:
        found = ip_interface(text)
    except ValueError:
        return False
    return text in (str(found), str(found.ip)) and not text.endswith(f"/{found.max_prefixlen}")


def _is_cidr(text: str) -> bool:
    try:
        return text == str(ip_network(text))
    except ValueError:
        return False


_OF_KINDS: Final[dict[Kind, Meaning]] = {
    Kind.ENUM: Meaning(
        "is an enum, whose labels are text in the lake and sort by their letters",
        frozenset({UseKind.ORDERED}),
        "sort by array_position(array('first label', 'second label'), {name})",
    ),
    Kind.UUID: Meaning(
        "is a uuid, text of lower-case letters in the lake",
        frozenset({UseKind.LITERAL}),
        "write the literal in lower case, with its four hyphens",
        lambda text: _UUID.fullmatch(text) is not None,
    ),
    Kind.TIME: Meaning(
        "is a time of day, text in the lake",
        frozenset({UseKind.LITERAL}) | _CALCULATED,
        "write a literal with six digits of a second, '12:30:00.000000', or cast {name}",
        lambda text: _TIME.fullmatch(text) is not None,
    ),
    Kind.INTERVAL: Meaning("is an interval, text in ISO 8601 in the lake", _NUMBERS, _IN_SOURCE),
    Kind.JSON: Meaning(
        "is JSON, its text in the lake",
        _SAME | {UseKind.ORDERED},
        "compare values in it: get_json_object({name}, '$.field')",
    ),
    Kind.GEOMETRIC: Meaning("is a geometric type, text in the lake", _NUMBERS, _IN_SOURCE),
}
_OF_LITERALS: Final[dict[str, Meaning | None]] = {
    "inet": Meaning(
        "is an inet, text in the lake, which sorts by its letters",
        frozenset({UseKind.LITERAL, UseKind.ORDERED}) | _CALCULATED,
        "write literals as Postgres does; to sort, keep a number in a column of its own in the source",
        _is_inet,
    ),
    "cidr": Meaning(
        "is a cidr, text in the lake, which sorts by its letters",
        frozenset({UseKind.LITERAL, UseKind.ORDERED}) | _CALCULATED,
        "write literals as Postgres does; to sort, keep a number in a column of its own in the source",
        _is_cidr,
    ),
    **dict.fromkeys(
        ("macaddr", "macaddr8"),
        Meaning(
            "is a MAC address, text of lower-case letters in the lake",
            frozenset({UseKind.LITERAL}) | _CALCULATED,
            "write the literal in lower case, with colons",
            lambda text: _MAC.fullmatch(text) is not None,
        ),
    ),
    "timetz": Meaning(
        "is a time with a zone, text in the lake",
        frozenset({UseKind.LITERAL, UseKind.ORDERED}) | _CALCULATED,
        _IN_SOURCE,
    ),
    **dict.fromkeys(
        ("bit", "varbit"), Meaning("is a string of bits, text in the lake", _CALCULATED, "use conv({name}, 2, 10)")
    ),
    # one letter, and names, are the same as text
    "char": None,
    **dict.fromkeys(("regclass", "regproc", "regtype", "regrole", "regnamespace", "regconfig"), None),
}
_CHAR: Final = Meaning(
    "is char(n), text with the blanks at its end in the lake",
    _SAME | {UseKind.ORDERED},
    "use rtrim({name})",
)
_CITEXT: Final = Meaning(
    "is citext, text in the lake, where upper and lower case differ",
    _SAME | {UseKind.ORDERED, UseKind.MATCHED},
    "use lower({name})",
)
_DECIMAL: Final = 'follow it as a decimal: source.column_types: {{{table}: {{{column}: "decimal(38,9)"}}}}'


def find_meaning(column: Column) -> Meaning | None:
    """What the column's text means in the lake; None where it is no text, or text in Postgres, too."""
    if column.compared_as:
        return _CITEXT if column.compared_as == "citext" else _CHAR
    if column.kind is Kind.NUMERIC:
        chosen = "followed as text (source.column_types)" if column.chosen else f"a {NUMERIC} without a precision"
        what = f"is {chosen}, text in the lake" if not column.chosen else f"is {chosen}"
        return Meaning(what, _NUMBERS, _DECIMAL)
    if column.kind is not Kind.LITERAL:
        return _OF_KINDS.get(column.kind)
    if column.chosen:
        what, remedy = f"is a {column.type}, followed as text (source.column_types)", "cast {name} where it is used"
        return Meaning(what, _NUMBERS, remedy)
    if column.type in _OF_LITERALS:
        return _OF_LITERALS[column.type]
    return Meaning(f"is the text of a {column.type or 'value'} in the lake", _NUMBERS, _IN_SOURCE)


def find_addition_meaning(column: Column) -> Meaning | None:
    """What a numeric is in the lake, where the order of addition decides its sum's digits; None where it does not."""
    if column.kind is Kind.DOUBLE and column.type == NUMERIC:
        return Meaning("is followed as double (source.column_types)", _CALCULATED, _DECIMAL)
    return find_meaning(column) if column.kind is Kind.NUMERIC else None


def find_followed(table: Table) -> TableName:
    """The table of the source that has the columns of this one, which is that table or an epoch of its history."""
    own = _OF_HISTORY.fullmatch(table.name.table) if CHAIN in table.column_names else None
    return TableName(table.name.schema, own[1]) if own else table.name


def _to_yaml(name: str) -> str:
    """A name as a key of YAML, between braces, too."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)

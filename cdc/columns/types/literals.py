"""Types without a kind of their own, and those that the user chooses to follow so: Postgres's own text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_interface, ip_network
from typing import Final

from cdc.columns.types.postgres_type import PostgresType
from cdc.columns.types.text_meaning import AS_NUMBERS, CALCULATED, IN_SOURCE, Meaning, UseKind
from cdc.columns.types.texts import SHORT_TEXT
from cdc.core.table import Column, Kind

_LITERALS: Final = frozenset({UseKind.LITERAL}) | CALCULATED
_AS_POSTGRES: Final = "write literals as Postgres does; to sort, keep a number in a column of its own in the source"


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


def _address(article: str, name: str, is_written_so: Callable[[str], bool]) -> Meaning:
    what = f"is {article} {name}, text in the lake, which sorts by its letters"
    return Meaning(what, _LITERALS | {UseKind.ORDERED}, _AS_POSTGRES, is_written_so)


_MEANINGS: Final[Mapping[str, Meaning | None]] = {
    "inet": _address("an", "inet", _is_inet),
    "cidr": _address("a", "cidr", _is_cidr),
    **dict.fromkeys(
        ("macaddr", "macaddr8"),
        Meaning(
            "is a MAC address, text of lower-case letters in the lake",
            _LITERALS,
            "write the literal in lower case, with colons",
            re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,7}").fullmatch,
        ),
    ),
    "timetz": Meaning("is a time with a zone, text in the lake", _LITERALS | {UseKind.ORDERED}, IN_SOURCE),
    **dict.fromkeys(
        ("bit", "varbit"), Meaning("is a string of bits, text in the lake", CALCULATED, "use conv({name}, 2, 10)")
    ),
    # one letter, and names, are the same as text
    "char": None,
    **dict.fromkeys(("regclass", "regproc", "regtype", "regrole", "regnamespace", "regconfig"), None),
}


def _find_meaning(column: Column) -> Meaning | None:
    if column.chosen:
        what = f"is a {column.type}, followed as text (source.column_types)"
        return Meaning(what, AS_NUMBERS, "cast {name} where it is used")
    if column.type in _MEANINGS:
        return _MEANINGS[column.type]
    return Meaning(f"is the text of a {column.type or 'value'} in the lake", AS_NUMBERS, IN_SOURCE)


LITERAL: Final[PostgresType] = replace(
    SHORT_TEXT,
    kind=Kind.LITERAL,
    has_name=True,
    is_out_of_line=True,
    is_sent_whole=False,
    # format('%s') uses the type's output function, like the log; a cast to text differs for inet and some others. IS
    # DISTINCT FROM NULL, since IS NULL is true for a composite whose fields are all null
    selected="CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END",
    exact="exact, as Postgres writes it, infinity and year 294276, too; of regclass and its kin, the name at that time",
    lines={
        "by choice as text: date, timestamp, timestamptz, interval, vectors, geometries": Column(
            "", Kind.LITERAL, type="date", chosen="text"
        ),
        "any other: inet, ranges, composites, hstore, box2d, …": Column("", Kind.LITERAL),
    },
    of=lambda column: replace(LITERAL, meaning=_find_meaning(column)),
)

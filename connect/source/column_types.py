"""Postgres's types, as its catalog has them, and the kinds of columns that they make."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc.core.table import MONEY, NUMERIC, Column, Kind, may_be_text
from connect.choices import ChosenType

MAX_DECIMAL_DIGITS: Final = 38
_MONEY_DIGITS: Final = (19, 2)
_BUILT_IN: Final = "pg_catalog"

KINDS: Final[Mapping[str, Kind]] = {
    "bool": Kind.BOOLEAN,
    "int2": Kind.SMALLINT,
    "int4": Kind.INTEGER,
    "int8": Kind.BIGINT,
    "oid": Kind.OID,
    "float4": Kind.REAL,
    "float8": Kind.DOUBLE,
    "text": Kind.TEXT,
    "varchar": Kind.TEXT,
    "bpchar": Kind.TEXT,
    "name": Kind.TEXT,
    "xml": Kind.TEXT,
    "json": Kind.JSON,
    "jsonb": Kind.JSON,
    "uuid": Kind.UUID,
    "bytea": Kind.BYTES,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.TIMESTAMPTZ,
    "interval": Kind.INTERVAL,
    **dict.fromkeys(("point", "line", "lseg", "box", "path", "polygon", "circle"), Kind.GEOMETRIC),
}
"""Built-in types with a kind of their own; of all others the text is kept that Postgres writes."""

_OF_EXTENSIONS: Final[Mapping[str, Kind]] = {"citext": Kind.TEXT}
_SENT_WHOLE: Final = frozenset(
    {Kind.BOOLEAN, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.OID, Kind.REAL, Kind.DOUBLE, Kind.DECIMAL}
    | {Kind.NUMERIC, Kind.TEXT, Kind.ENUM, Kind.JSON, Kind.UUID, Kind.BYTES, Kind.DATE, Kind.TIME, Kind.TIMESTAMP}
    | {Kind.TIMESTAMPTZ}
)


@dataclass(frozen=True, slots=True)
class PgType:
    """A type: `base` is what a domain restricts, `element` what an array holds, 0 where it is neither.

    `separator` stands between values of it in an array.
    """

    oid: int
    name: str
    schema: str
    is_enum: bool
    modifier: int
    base: int
    element: int
    separator: str = ","

    @property
    def qualified_name(self) -> str:
        return self.name if self.schema == _BUILT_IN else f"{self.schema}.{self.name}"


Types = Mapping[int, PgType]


def to_column(name: str, oid: int, modifier: int, known: Types) -> Column:
    """The column of a type with a modifier (pg_attribute, `atttypmod`; -1 where there is none)."""
    found, modifier = _resolve_domain(known[oid], modifier, known)
    if not found.element:
        return _scalar(name, found, modifier)
    element, modifier = _resolve_domain(known[found.element], modifier, known)
    # arrays in arrays, by way of a domain: each is one text
    made = Column(name, Kind.LITERAL) if element.element else _scalar(name, element, modifier)
    return Column(name, made.kind, made.precision, made.scale, array=True, type=made.type, separator=element.separator)


def apply_choice(column: Column, choice: ChosenType) -> Column | None:
    """The column followed as the user has chosen; None where its type has no such choice.

    A numeric as text is what one without bounds is anyway, and has every value; a DOUBLE of type `numeric` is the
    nearest one. What else is text is as Postgres writes it.
    """
    is_numeric = column.kind in (Kind.DECIMAL, Kind.NUMERIC) and column.type != MONEY and not column.array
    if is_numeric and choice is ChosenType.TEXT:
        return replace(column, kind=Kind.NUMERIC, precision=0, scale=0, chosen=choice)
    if is_numeric:
        return replace(column, kind=Kind.DOUBLE, precision=0, scale=0, type=NUMERIC, chosen=choice)
    if may_be_text(column) and choice is ChosenType.TEXT:
        return replace(column, kind=Kind.LITERAL, type=str(column.kind), chosen=choice)
    return None


def to_key_column(column: Column) -> Column:
    """The column where it is part of a key: an array as the text that names it."""
    if not column.array:
        return column
    return Column(column.name, Kind.LITERAL, type=f"{column.type or column.kind}[]", number=column.number)


def is_sent_whole(column: Column) -> bool:
    """Does Debezium send it whole by itself, without our converter?"""
    return not column.array and column.kind in _SENT_WHOLE and column.type != MONEY


def _resolve_domain(found: PgType, modifier: int, known: Types) -> tuple[PgType, int]:
    """What a domain, of a domain perhaps, restricts, and the modifier that holds for it."""
    while found.base:
        modifier = modifier if modifier >= 0 else found.modifier
        found = known[found.base]
    return found, modifier


def _scalar(name: str, found: PgType, modifier: int) -> Column:
    if found.is_enum:
        return Column(name, Kind.ENUM)
    if found.schema != _BUILT_IN:
        kind = _OF_EXTENSIONS.get(found.name, Kind.LITERAL)
        return Column(name, kind, type=found.qualified_name if kind is Kind.LITERAL else "")
    if found.name == NUMERIC:
        return _numeric(name, modifier)
    if found.name == MONEY:
        return Column(name, Kind.DECIMAL, *_MONEY_DIGITS, type=MONEY)
    kind = KINDS.get(found.name, Kind.LITERAL)
    return Column(name, kind, type=found.name if kind in (Kind.LITERAL, Kind.GEOMETRIC) else "")


def _numeric(name: str, modifier: int) -> Column:
    """numeric(p, s) as its modifier says it (`numerictypmodin` in Postgres); unbounded digits stay text."""
    if modifier < 0:
        return Column(name, Kind.NUMERIC)
    # eleven bits with a sign: since Postgres 15 a scale may be below 0, or above the precision
    precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    if precision > MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        return Column(name, Kind.NUMERIC)
    return Column(name, Kind.DECIMAL, precision, scale)

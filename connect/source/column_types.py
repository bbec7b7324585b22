"""Maps Postgres's types (pg_type) to kinds of columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cdc.columns.types.decimals import MONEY_COLUMN
from cdc.columns.types.extensions.geometries import describe_modifier
from cdc.columns.types.extensions.vectors import MOST_DIMENSIONS
from cdc.columns.types.registry import TYPES, type_of
from cdc.connect.table_choices import ChosenKind, ChosenType, ColumnChoices
from cdc.core.table import MAX_DECIMAL_DIGITS, MONEY, NUMERIC, Column, Kind

_BUILT_IN: Final = "pg_catalog"

KINDS: Final[Mapping[str, Kind]] = {name: each.kind for each in TYPES.values() for name in each.names}
"""Built-in types with their own kind; of all others, followers hold Postgres's text."""
_OF_EXTENSIONS: Final[Mapping[str, Kind]] = {name: each.kind for each in TYPES.values() for name in each.extensions}

_TEXTS_IN_ARRAYS: Final = (Kind.VECTOR, Kind.GEOMETRY)


@dataclass(frozen=True, slots=True)
class PgType:
    """A row of pg_type: `base` is the type under a domain, `element` the type of an array's elements, else 0.

    `separator`: between its values in the text of an array. `attributes`: of a composite type only.
    """

    oid: int
    name: str
    schema: str
    is_enum: bool
    modifier: int
    base: int
    element: int
    separator: str = ","
    attributes: tuple[Any, ...] | None = ()

    @property
    def qualified_name(self) -> str:
        return self.name if self.schema == _BUILT_IN else f"{self.schema}.{self.name}"


Types = Mapping[int, PgType]


def to_column(name: str, oid: int, modifier: int, known: Types) -> Column:
    """Make the column of a type with a modifier (pg_attribute, `atttypmod`; -1 if there is none)."""
    found, modifier = _resolve_domain(known[oid], modifier, known)
    if not found.element:
        return _scalar(name, found, modifier)
    element, modifier = _resolve_domain(known[found.element], modifier, known)
    # an array of a domain over arrays: each element is one text
    made = Column(name, Kind.LITERAL) if element.element else _scalar(name, element, modifier)
    if made.kind in _TEXTS_IN_ARRAYS:
        made = Column(name, Kind.LITERAL, type=element.qualified_name)
    return replace(made, array=True, separator=element.separator)


def apply_choice(column: Column, choice: ChosenType) -> Column | None:
    """Change the column to the user's choice; None if its type has no such choice.

    A numeric as text is the same as an unbounded numeric, and keeps every value. As DOUBLE it is the nearest double. As
    DECIMAL it is exact, or cannot be held; an array has such elements. Other types as text are Postgres's text.
    """
    is_numeric, chosen = column.kind in (Kind.DECIMAL, Kind.NUMERIC) and column.type != MONEY, str(choice)
    if is_numeric and choice.kind is ChosenKind.DECIMAL:
        return replace(column, kind=Kind.DECIMAL, precision=choice.precision, scale=choice.scale, chosen=chosen)
    if is_numeric and choice.kind is ChosenKind.TEXT and not column.array:
        return replace(column, kind=Kind.NUMERIC, precision=0, scale=0, chosen=chosen)
    if is_numeric and choice.kind is ChosenKind.DOUBLE and not column.array:
        return replace(column, kind=Kind.DOUBLE, precision=0, scale=0, type=NUMERIC, chosen=chosen)
    if str(choice) in type_of(column).wider:
        return replace(column, kind=Kind.LITERAL, type=str(column.kind), chosen=chosen)
    return None


def find_choice(column: Column, choices: ColumnChoices, *, is_key: bool) -> ChosenType | None:
    """The choice for a column, as far as its own type has it; a choice of the very column counts in any case."""
    if column.name in choices.named:
        return choices.named[column.name]
    wanted = choices.find(column.name) or (choices.numerics if column.kind is Kind.NUMERIC else None)
    is_possible = wanted and apply_choice(column, wanted) and not (is_key and find_key_obstacle(column, wanted))
    return wanted if is_possible else None


def find_key_obstacle(column: Column, choice: ChosenType) -> str | None:
    """Why a column with this choice cannot be part of a key; None if it can."""
    if choice.kind is ChosenKind.DOUBLE:
        return "two keys may have one double"
    return "an array in a key is followed as its text" if column.array else None


def to_key_column(column: Column) -> Column:
    """Change the column for use in a key: an array, or a vector, becomes its text."""
    if column.kind is Kind.VECTOR:
        return Column(column.name, Kind.LITERAL, type=column.type, number=column.number)
    if not column.array:
        return column
    return Column(column.name, Kind.LITERAL, type=f"{column.type or column.kind}[]", number=column.number)


def is_sent_whole(column: Column) -> bool:
    """Does Debezium send all its values without our converter?"""
    return type_of(column).is_sent_whole


def _resolve_domain(found: PgType, modifier: int, known: Types) -> tuple[PgType, int]:
    """Follow domains (also of domains) to the type below; returns it with the modifier that applies."""
    # a column of a domain has no modifier of its own (-1): the domain's applies
    while found.base:
        modifier = modifier if modifier >= 0 else found.modifier
        found = known[found.base]
    return found, modifier


def _scalar(name: str, found: PgType, modifier: int) -> Column:
    if found.is_enum:
        return Column(name, Kind.ENUM)
    # a user's type may have the name of a built-in one
    is_built_in = found.schema == _BUILT_IN
    if is_built_in and found.name == NUMERIC:
        return _numeric(name, modifier)
    if is_built_in and found.name == MONEY:
        return replace(MONEY_COLUMN, name=name)
    named = KINDS if is_built_in else {} if found.attributes != () else _OF_EXTENSIONS
    known = TYPES[named.get(found.name, Kind.LITERAL)]
    if known.kind is Kind.GEOMETRY:
        return Column(name, known.kind, type=describe_modifier(found.qualified_name, modifier))
    if known.kind is Kind.VECTOR and modifier > MOST_DIMENSIONS:
        return Column(name, Kind.LITERAL, type=found.qualified_name)
    compared_as = found.name if found.name in known.compared_otherwise else ""
    return Column(name, known.kind, type=found.qualified_name if known.has_name else "", compared_as=compared_as)


def _numeric(name: str, modifier: int) -> Column:
    """Read numeric(p, s) from its modifier (`numerictypmodin` in Postgres); without bounds it is text."""
    if modifier < 0:
        return Column(name, Kind.NUMERIC)
    # the scale has eleven bits with a sign: since Postgres 15 it may be negative, or above the precision
    precision, scale = (modifier - 4) >> 16, ((modifier - 4) & 0x7FF ^ 1024) - 1024
    if precision > MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        return Column(name, Kind.NUMERIC)
    return Column(name, Kind.DECIMAL, precision, scale)

"""Which type a column is followed as, where the user chooses: by its name, by a pattern, or for all numerics."""

import pytest

from cdc.connect.source.column_types import apply_choice, find_choice
from cdc.connect.table_choices import CHOSEN_TYPES, Choices, ChosenType
from cdc.core.table import MONEY, Column, Kind, TableName

ORDERS, LINES = TableName("public", "orders"), TableName("public", "lines")
FREE, BOUND, COUNT = Column("free", Kind.NUMERIC), Column("bound", Kind.DECIMAL, 5, 3), Column("n", Kind.INTEGER)


def choices(**types: dict[str, str]) -> Choices:
    return Choices(
        types={
            name.replace("_", ".").replace("ANY", "*"): {column: ChosenType.parse(text) for column, text in of.items()}
            for name, of in types.items()
        }
    )


def chosen(of: Choices, column: Column, table: TableName = ORDERS, *, is_key: bool = False) -> str | None:
    found = find_choice(column, of.types_of(table), is_key=is_key)
    return str(found) if found else None


@pytest.mark.parametrize(
    ("text", "parsed"), [("decimal(12, 2)", "decimal(12,2)"), ("decimal(38)", "decimal(38,0)"), ("text", "text")]
)
def test_choices_are_read_in_one_form(text: str, parsed: str) -> None:
    assert str(ChosenType.parse(text)) == parsed


@pytest.mark.parametrize(
    "text", ["decimal", "decimal(0)", "decimal(39,2)", "decimal(5,6)", "decimal(-1)", "numeric(5,2)"]
)
def test_what_no_follower_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not") as refused:
        ChosenType.parse(text)
    assert CHOSEN_TYPES in str(refused.value)


def test_decimal_is_for_numerics_of_every_form_and_their_arrays() -> None:
    choice = ChosenType.parse("decimal(12,2)")
    made = apply_choice(Column("c", Kind.NUMERIC, array=True, number=3), choice)
    assert made == Column("c", Kind.DECIMAL, 12, 2, array=True, chosen="decimal(12,2)")
    assert apply_choice(BOUND, choice) is not None
    assert all(apply_choice(each, choice) is None for each in (COUNT, Column("c", Kind.DOUBLE), Column("c", Kind.TEXT)))
    assert apply_choice(Column("c", Kind.DECIMAL, 19, 2, type=MONEY), choice) is None


def test_patterns_reach_what_can_be_followed_so_and_names_win() -> None:
    of = choices(
        public_ANY={"*": "decimal(38,9)", "bound": "double", "n": "text"},
        public_orders={"free": "decimal(12,2)"},
    )
    assert chosen(of, FREE) == "decimal(12,2)"
    assert chosen(of, FREE, LINES) == chosen(of, Column("tags", Kind.NUMERIC, array=True)) == "decimal(38,9)"
    assert chosen(of, BOUND) == "double"
    # of a pattern only what is possible, and of `*` only what is text else
    assert chosen(of, COUNT) is chosen(of, Column("other", Kind.DECIMAL, 5, 3)) is None
    assert chosen(of, FREE, TableName("sales", "orders")) is None


def test_key_is_no_double_and_its_array_no_list() -> None:
    of = choices(public_ANY={"free": "double", "*": "decimal(38,9)"})
    assert chosen(of, FREE, is_key=True) is None
    assert chosen(of, Column("other", Kind.NUMERIC), is_key=True) == "decimal(38,9)"
    assert chosen(of, Column("other", Kind.NUMERIC, array=True), is_key=True) is None


def test_texts_are_listed_for_the_connector() -> None:
    of = choices(
        public_ANY={"day": "text"}, public_orders={"at": "text", "free": "double"}, public_lines={"day": "text"}
    )
    assert of.list_texts([ORDERS, LINES, TableName("sales", "x")]) == {ORDERS: ["day", "at"], LINES: ["day"]}

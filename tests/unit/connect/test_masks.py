"""Masks and row filters without a source: which are refused, and what followers hold."""

import pytest

from cdc.connect.capture.masked_columns import MaskedTable, build_mask_properties, find_renamed
from cdc.connect.masks import apply_mask, find_mask_refusals
from cdc.connect.row_filters import find_filter_error, find_filter_refusals, list_filter_columns
from cdc.connect.settings import CaptureSettings, SourceSettings
from cdc.connect.source.relation import find_labels
from cdc.core.mask import Mask, MaskKind
from cdc.core.schema_change import Altered, describe_differences, diff_tables, has_more_columns
from cdc.core.table import Column, Kind, Table, TableName

NAME = TableName("public", "people")
COLUMNS = (
    Column("id", Kind.INTEGER, number=1),
    Column("email", Kind.TEXT, number=2),
    Column("rate", Kind.DOUBLE, number=3),
    Column("code", Kind.TEXT, number=4, compared_as="bpchar"),
)
REFUSED = {
    ("id", "null"): "as null, and it is part of the key → a key can be hashed, no more",
    ("id", "drop"): "as drop, and it is part of the key",
    ("none", "hash"): "as hash, which it does not have, or computes → correct source.mask: was it renamed?",
    ("rate", "hash"): "as hash, and its type is double → choose null, drop or a word",
    ("rate", "last4"): "as last4, and its type is double → choose hash, null, drop or a word",
    ("code", "last4"): "as last4, and its type is bpchar",
}
WRONG = {
    "a) or (b": "no condition",
    "1; drop table x": "no condition",
    "a = (select 1)": "more than the row's own columns",
    "count(*) > 1": "more than the row's own columns",
    "x = $1": "more than the row's own columns",
    "people.a = 1": "names columns with a table",
    "true": "names no column",
    "a = 1 -- b": "has a comment or a line break",
    "a = 1\nOR b = 1": "has a comment or a line break",
}


@pytest.mark.parametrize(("column", "mask"), REFUSED)
def test_masks_that_cannot_be_are_refused_by_name(column: str, mask: str) -> None:
    (refusal,) = find_mask_refusals(NAME, COLUMNS, ("id",), {column: Mask.parse(mask)})
    assert f"public.people: source.mask names {column} {REFUSED[column, mask]}" in str(refusal)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_condition_of_one_row_is_refused(text: str) -> None:
    assert WRONG[text] in str(find_filter_error(text))


def test_a_condition_reads_columns_as_postgres_names_them() -> None:
    text = "\"Mixed\" = 1 OR lower(NAME) LIKE 'x--%'"
    assert find_filter_error(text) is None
    assert list_filter_columns(text) == ["Mixed", "name"]


def test_a_condition_needs_its_columns_in_the_log() -> None:
    assert not find_filter_refusals(NAME, "state = 1", ["id", "state"], None)
    (uncovered,) = find_filter_refusals(NAME, "state = 1", ["id", "state"], ["id"])
    assert "ALTER TABLE public.people REPLICA IDENTITY FULL" in str(uncovered)
    (missing,) = find_filter_refusals(NAME, "stat = 1", ["id", "state"], None)
    assert "reads stat, which it does not have" in str(missing)


def test_a_masked_column_is_text_or_null_and_is_kept_with_its_mask() -> None:
    email = apply_mask(COLUMNS[2], Mask(MaskKind.HASH, fingerprint="ab"))
    assert email == Column("rate", Kind.TEXT, mask="hash:ab")
    assert apply_mask(COLUMNS[2], Mask(MaskKind.NULL)).kind is Kind.DOUBLE
    table = Table(NAME, (COLUMNS[0], email), ("id",), (COLUMNS[1],), "id > 3")
    assert Table.from_json(table.as_json()) == table
    assert Mask.of_column(email) == Mask(MaskKind.HASH, fingerprint="ab")
    word = apply_mask(COLUMNS[1], Mask.parse("word:a:b"))
    assert Mask.of_column(word) == Mask(MaskKind.WORD, "a:b")


def test_every_new_column_of_a_masked_table_needs_a_copy() -> None:
    masked = Table(NAME, (COLUMNS[0],), ("id",), (COLUMNS[1],))
    wider = Table(NAME, (*masked.columns, COLUMNS[2]), ("id",), masked.dropped)
    assert isinstance(diff_tables(masked, wider), Altered)
    assert not has_more_columns(masked, wider)
    other = Table(NAME, masked.columns, ("id",), (), "id > 3")
    assert describe_differences(masked, other) == [
        "its rows were all and are those where id > 3",
        "columns left out were email and are none",
    ]


def test_a_masked_column_is_known_by_its_number_when_it_has_another_name() -> None:
    followed = Table(NAME, (COLUMNS[0], apply_mask(COLUMNS[2], Mask(MaskKind.NULL))), ("id",), (COLUMNS[1],))
    names = {1: "id", 2: "mail", 3: "rate", 5: "email"}
    assert find_renamed(followed, names, {"email": Mask(MaskKind.DROP)}) == {"email": "mail"}
    assert not find_renamed(followed, names, {"mail": Mask(MaskKind.DROP)})
    assert not find_renamed(None, names, {})


def test_connect_gets_masks_and_the_columns_that_have_none() -> None:
    source = SourceSettings(host="h", dbname="d", user="u", password="p", tables=["t"], mask_secret="s" * 16)
    capture = CaptureSettings(url="http://c", mask_secret_reference="${file:/s:mask}")
    masks = {"email": Mask(MaskKind.DROP), "a\tb": Mask(MaskKind.WORD, "x\ny")}
    tables = {NAME: MaskedTable(masks, ["id"]), TableName("public", "odd"): MaskedTable({}, [])}
    assert build_mask_properties(source, capture, tables) == {
        "exact.masks": "\n".join(
            (
                "public.odd\t\tplain",
                "public.people\ta%09b\tword\tx%0ay",
                "public.people\temail\tdrop",
                "public.people\tid\tplain",
            )
        ),
        "exact.mask.secret": "${file:/s:mask}",
        "column.exclude.list": r"(?-i)public\.people\.email",
    }
    assert build_mask_properties(source, capture, {}) == {}


def test_a_publication_is_known_by_its_name_whatever_it_sends() -> None:
    assert find_labels("p", ("p\t12", "q")) == (False, True)
    assert find_labels("p", ("p", "p2\t12")) == (True, False)
    assert find_labels("p", ()) == (False, False)

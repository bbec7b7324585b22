"""Every kind of column has a whole record, and its forms agree with each other and with our converter in Connect."""

import json
import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc.columns.types.copied_fields import VariableColumn
from cdc.columns.types.registry import TYPES, type_of
from cdc.columns.types.spark_types import spark_type, to_column
from cdc.core.table import MONEY, NUMERIC, Column, Kind
from tests.support.cdc_subprocess import ROOT

SCALARS = [
    *(Column(str(kind), kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.STRUCT)),
    Column("short", Kind.DECIMAL, 12, 2),
    Column("long", Kind.DECIMAL, 38, 10),
    Column("chosen", Kind.DECIMAL, 12, 2, chosen="decimal(12,2)"),
    Column("money", Kind.DECIMAL, 19, 2, type=MONEY),
    Column("nearest", Kind.DOUBLE, type=NUMERIC, chosen="double"),
]
ARRAYS = [replace(column, name=f"{column.name}[]", array=True) for column in SCALARS if column.kind is not Kind.VECTOR]
NULL = VariableColumn(np.zeros(64, np.uint8), np.zeros(2, np.int64), np.array([-1], np.int32))


def test_every_kind_has_one_record_and_every_name_one_kind() -> None:
    assert {kind: each.kind for kind, each in TYPES.items()} == {kind: kind for kind in Kind}
    names = [name for each in TYPES.values() for name in (*each.names, *each.extensions)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("column", SCALARS + ARRAYS, ids=lambda column: column.name)
def test_forms_of_a_type_agree(column: Column) -> None:
    found = type_of(column)
    made = [found.from_log([None], column), found.from_text([None], column), found.from_copy(NULL, column)]
    assert [(each.type, each.to_pylist()) for each in made] == [(found.arrow, [None])] * 3
    assert found.write(made[0]).to_pylist() == ["null"]
    in_views = to_column("c", spark_type(column))
    assert in_views
    assert type_of(in_views).arrow == found.arrow


def test_struct_is_made_of_its_fields() -> None:
    column = Column("s", Kind.STRUCT, fields=(Column("n", Kind.OID), Column("texts", Kind.TEXT, array=True)))
    values = type_of(replace(column, array=True))
    assert to_column("s", spark_type(column)) == replace(column, fields=(Column("n", Kind.BIGINT), column.fields[1]))
    assert values.index == {**type_of(column).index, "type": "nested"}
    assert type_of(column).index["properties"]["n"] == {"type": "long"}


def test_converter_leaves_to_debezium_only_what_it_sends_whole() -> None:
    java = (ROOT / "connect/plugin/PostgresText.java").read_text()
    listed = java[java.index("SENT_WHOLE = Set.of(") : java.index("int LARGEST_SCALE")]
    named = set(re.findall(r"\w+", " ".join(re.findall(r"// (.*)", listed))))
    assert len(named) == len(re.findall(r"\d+[,)]", re.sub(r"//.*", "", listed)))
    whole = {name for each in TYPES.values() if each.is_sent_whole for name in each.names}
    # of name and xml Debezium and the converter send one text
    assert named == whole - {"name", "xml"} | {NUMERIC}


@given(st.lists(st.none() | st.text() | st.sampled_from(['"', "\\", "\x1f", "\x7f", "é"])), st.integers(0, 3))
@example([None, None], 0)
@example(["", ""], 1)
@example(['"', "plain"], 1)
def test_texts_are_written_as_json_does(texts: list[str | None], first: int) -> None:
    written = TYPES[Kind.TEXT].write(pa.array(texts, pa.string())[first:])
    assert written.to_pylist() == [json.dumps(text, ensure_ascii=False) for text in texts[first:]]


@given(st.lists(st.none() | st.datetimes()))
@example([datetime.min, datetime.max, None])
def test_times_are_written_with_a_t_also_beside_far_years(times: list[datetime | None]) -> None:
    far = pa.array([10**18], pa.int64()).cast(pa.timestamp("us"))
    array = pa.array(times, pa.timestamp("us"))
    expected = ["null" if time is None else f'"{time.isoformat(timespec="microseconds")}"' for time in times]
    assert TYPES[Kind.TIMESTAMP].write(array).to_pylist() == expected
    assert TYPES[Kind.TIMESTAMP].write(pa.concat_arrays([array, far])).to_pylist()[:-1] == expected

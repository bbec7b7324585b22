"""What a repair answers: the exit codes of a comparison, and a remedy for what is left."""

import numpy as np
import pyarrow as pa
import pytest

from cdc.cli.everyday.repair import _parse_key
from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.errors import CdcError, DivergenceError, PreconditionError
from cdc.core.position import Lsn
from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.repair.finding import join_keys
from cdc.run.repair.places import NONE, TWICE, _judge, align
from cdc.run.repair.report import RepairReport, TableRepair
from cdc.run.repair.source_rows import check_keys
from cdc.sinks.lake.feed.keyed_rows import key_schema

NAME = TableName("public", "t")
THINGS = Table(NAME, (Column("id", Kind.INTEGER), Column("was", Kind.TEXT)), ("id",))
REFUSED = PreconditionError("it has no key", "copy it")


def report_of(repaired: TableRepair, failed: CdcError | None = None) -> RepairReport:
    return RepairReport(Lsn(1), {NAME: repaired}, {NAME: failed} if failed else {}, 1.0)


@pytest.mark.parametrize(
    ("report", "kind", "told"),
    [
        (report_of(TableRepair(3, 8, {"search": 1})), DivergenceError, "cdc bootstrap --again public.t"),
        (report_of(TableRepair(3, 8, {"views": 1}, is_view=True)), DivergenceError, "`cdc rebuild public.t`"),
        (report_of(TableRepair(3, 8, moved=2)), PreconditionError, "try again when writes are few"),
        (report_of(TableRepair(0), REFUSED), PreconditionError, "copy it"),
    ],
)
def test_what_is_left_is_told_with_a_remedy(report: RepairReport, kind: type[CdcError], told: str) -> None:
    assert not report.is_equal
    with pytest.raises(kind) as error:
        report.check_equal()
    assert told in str(error.value)


def test_equal_is_equal() -> None:
    report = report_of(TableRepair(3, 1))
    report.check_equal()
    assert report.as_json()["tables"]["public.t"]["verdict"] == "equal"


@pytest.mark.parametrize(
    ("text", "key"),
    [("7", ["7"]), ('[7, "a,b"]', ["7", "a,b"]), ("[odd", ["[odd"]), ("a b", ["a b"])],
)
def test_a_key_is_one_text_or_a_list(text: str, key: list[str]) -> None:
    assert _parse_key(text) == key


def test_documents_are_compared_key_by_key() -> None:
    keys = pa.Table.from_pylist([{"id": n} for n in (3, 1, 2, 4)], key_schema(THINGS))
    rows = pa.Table.from_pylist(
        [{"id": 1, "was": "a"}, {"id": 3, "was": "c"}, {"id": 4, "was": "d"}, {"id": 4, "was": "d"}],
        arrow_schema(THINGS),
    )
    found = align(rows, THINGS, keys)
    assert found == [{"id": 3, "was": "c"}, {"id": 1, "was": "a"}, NONE, TWICE]
    nobody = np.zeros(4, np.bool_)
    verdict = _judge([{"id": 3, "was": "c"}, NONE, None, {"id": 4, "was": "d"}], found, nobody)
    assert verdict.differs.tolist() == [False, True, False, True]
    assert verdict.unknown.tolist() == [False, False, True, False]
    # a key that was equal once is known, however often it changes while it is compared
    later = _judge(found, found, ~nobody).after(verdict)
    assert later.unknown.tolist() == [False, True, True, True]
    assert not later.differs.any()


def test_keys_are_joined_once() -> None:
    parts = [pa.Table.from_pylist([{"id": n} for n in some], key_schema(THINGS)) for some in ((1, 2), (2, 3), ())]
    assert sorted(join_keys(parts, THINGS)["id"].to_pylist()) == [1, 2, 3]


def test_a_table_without_a_key_or_with_a_masked_one_is_refused() -> None:
    masked = Table(NAME, (Column("id", Kind.TEXT, mask="hash:ab"),), ("id",))
    for table in (Table(NAME, THINGS.columns, ()), masked):
        refusal = check_keys(table)
        assert refusal is not None
        assert f"cdc bootstrap --again {NAME}" in (refusal.remedy or "")
    assert check_keys(THINGS) is None

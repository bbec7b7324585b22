"""DuckDB sees the rows that it is given, and nothing else of this machine."""

import duckdb
import pyarrow as pa
import pytest

from cdc.views.refresh.evaluate import Evaluator

outside = pa.table({"x": [1]})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM outside",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM 'data.parquet'",
        "SELECT * FROM glob('/*')",
    ],
)
def test_nothing_outside_is_read(query: str) -> None:
    evaluator = Evaluator()
    assert evaluator.evaluate("SELECT x FROM t", {"t": outside}) == outside
    with pytest.raises(duckdb.Error):
        evaluator.evaluate(query, {})


@pytest.mark.parametrize("command", ["SET enable_external_access = true", "SET threads = 2", "LOAD httpfs"])
def test_nothing_of_that_is_changed(command: str) -> None:
    with pytest.raises(duckdb.Error):
        Evaluator().evaluate(command, {})

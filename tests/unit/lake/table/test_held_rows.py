"""Rows of small files in memory: read once, and let go of in the order of their last use."""

import pyarrow as pa

from cdc.sinks.lake.table.held_rows import HeldRows


def test_a_file_is_read_once_until_others_take_its_place() -> None:
    rows, read = pa.table({"id": [1, 2]}), list[str]()
    held = HeldRows(most=2 * rows.nbytes)

    def find(path: str) -> None:
        def read_file() -> pa.Table:
            read.append(path)
            return rows

        assert held.find(path, read_file) is rows

    for path in "ababacab":
        find(path)
    # `c` took the place of `b`, which was used longer ago than `a`, and `b` then that of `c`
    assert "".join(read) == "abcb"


def test_rows_that_are_too_many_are_not_held() -> None:
    held = HeldRows(most=1)
    held.put("a", pa.table({"id": [1, 2]}))
    assert held.find("a", lambda: pa.table({"id": [3]})).to_pylist() == [{"id": 3}]

"""What the Java of a session writes to stderr."""

import os
from pathlib import Path

from cdc.run.spark.java_process import pass_on


def test_only_the_line_on_a_module_that_spark_asks_for_is_left_out(tmp_path: Path) -> None:
    words, end = os.pipe()
    os.write(end, b"WARNING: Using incubator modules: jdk.incubator.vector\nError: no space\nhalf a line")
    os.close(end)
    with (tmp_path / "said").open("wb") as said:
        pass_on(words, said.fileno())
    assert (tmp_path / "said").read_bytes() == b"Error: no space\nhalf a line"

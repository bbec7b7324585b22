"""The line that tells most of a trace."""

import pytest

from cdc.core.text.error_text import pick_first_line, pick_root_cause

WORKER = """Error from python worker:
  /usr/bin/python3: No module named pyspark
PYTHONPATH was:
  /a:/b
org.apache.spark.SparkException: No port number in pyspark.daemon's stdout
\tat org.apache.spark.api.python.X.f(X.scala:1)
"""
"""What Spark says of a worker whose Python does not start, behind a type without a text."""


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        ("", ""),
        ("\n  one\ntwo", "one"),
        ("a.B: b\n\tat c\nCaused by: d.E: f\n\tat g\nCaused by: h.I: j\n\t... 3 more\n", "h.I: j"),
        (
            "Job aborted\nTraceback (most recent call last):\n  File x\nValueError: no\n\nDriver stacktrace:",
            "ValueError: no",
        ),
        ("x" * 400, "x" * 300),
        ("An error occurred while calling o13.collectToPython.\n: a.B: no such\n\tat c.d(E.java:1)\n", "a.B: no such"),
        ("An error occurred while calling o13.count.\n: a.B: b\n\tat c\nCaused by: d.E: f\n\tat g\n", "d.E: f"),
        (
            "Job aborted\nCaused by: o.SparkException: \nError from python worker:\n  no module\n\tat a\n",
            "o.SparkException: Error from python worker: no module",
        ),
        (
            "a.B: b\nCaused by: c.P: Traceback (most recent call last):\n  File x\nValueError: no\n\tat d\n",
            "ValueError: no",
        ),
        (
            "Traceback (most recent call last):\n  File x\npy4j.Py4JJavaError: z\n: a.B: b\nCaused by: c.D: e\n",
            "c.D: e",
        ),
        (
            f"a.B: b\n\tat c.d(e)\nCaused by: a.S: \n{WORKER}",
            "a.S: Error from python worker: /usr/bin/python3: No module named pyspark",
        ),
        ("a.B: b\n\tat c.d(e)\nCaused by: f.G: why\n\tat c.d(e)\nCaused by: a.S:\n\tat c.d(e)", "f.G: why"),
        ("a.B\n\tat c.d(e)\nCaused by: a.S: \n\tat c.d(e)", "a.S"),
        (
            "a\nCaused by: a.P: Traceback (most recent call last):\n  File x\nValueError: no\n\n\tat c.d(e)",
            "ValueError: no",
        ),
        ("An error occurred while calling o13.collectToPython.\n: a.S: Job aborted\n\tat c.d(e)", "a.S: Job aborted"),
        ("An error occurred while calling o13.start.\n: a.S\n\tat c.d(e)", "a.S"),
    ],
    ids=[
        "nothing",
        "a text",
        "Java",
        "Python",
        "a long line",
        "a call",
        "a call with a cause",
        "a cause on later lines",
        "Python below Java",
        "Java below Python",
        "text below its type",
        "text of an outer cause",
        "no text at all",
        "Python in Java",
        "py4j",
        "py4j of a type",
    ],
)
def test_the_root_cause_of_a_trace(trace: str, line: str) -> None:
    assert pick_root_cause(trace) == line


def test_an_error_without_text_is_named_by_its_type() -> None:
    assert pick_first_line(ValueError("\n one\ntwo")) == "one"
    assert pick_first_line(ValueError()) == "ValueError"

"""The line that tells most of a trace."""

import pytest

from cdc.core.error_text import pick_first_line, pick_root_cause


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
    ],
)
def test_the_root_cause_of_a_trace(trace: str, line: str) -> None:
    assert pick_root_cause(trace) == line


def test_an_error_without_text_is_named_by_its_type() -> None:
    assert pick_first_line(ValueError("\n one\ntwo")) == "one"
    assert pick_first_line(ValueError()) == "ValueError"

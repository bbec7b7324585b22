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
    ],
    ids=["nothing", "a text", "Java", "Python", "a long line"],
)
def test_the_root_cause_of_a_trace(trace: str, line: str) -> None:
    assert pick_root_cause(trace) == line


def test_an_error_without_text_is_named_by_its_type() -> None:
    assert pick_first_line(ValueError("\n one\ntwo")) == "one"
    assert pick_first_line(ValueError()) == "ValueError"

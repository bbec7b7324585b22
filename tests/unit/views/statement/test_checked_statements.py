"""`cdc config check` says one line of any statement, whatever it is: the view, what is wrong, and where."""

import re
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc.config.findings.view_findings import add_late_views, find_wrong_views
from cdc.connect.settings import SourceSettings
from cdc.core.table import TableName
from cdc.views.settings import ViewSettings
from tests.support.examples import examples
from tests.support.views.trials import random_statement
from tests.unit.config.test_settings import values

TABLES: Final = ["public.a", "public.b", "public.c"]
ODD: Final = (
    "(",
    ")",
    "'",
    "`",
    '"',
    "\\",
    ";",
    "--",
    "/*",
    "*/",
    "\0",
    "\u2028",
    "é",
    "🙂",
    "$",
    "${x}",
    "{",
    "]",
    "::",
    "@",
    "\n",
)
DEEP: Final = ("((", "CASE WHEN ", "SELECT ", "NOT ", "array(", "a IN (SELECT ", "-", "coalesce(x, ", "[", "x -> ")


def check(sql: str, key: str = "k", final_after: str = "") -> str | None:
    """What the file alone says of a view; None if nothing."""
    # a text without a letter is refused before anybody reads it
    sql = sql or " "
    views = {"shop.v": ViewSettings(sql=sql, key=[key], final_after=final_after)}
    source = SourceSettings.model_validate({**values()["source"], "tables": TABLES})
    found = find_wrong_views(views, source, [TableName("public", name) for name in "abc"])
    if not found:
        assert add_late_views(views)
        return None
    [(path, text)] = found
    return f"{'.'.join(map(str, path))}: {text}"


def assert_one_line(told: str | None) -> None:
    assert told is None or re.search("shop.v", told), told
    assert told is None or "\n" not in told, told
    assert told is None or "it cannot be read" not in told, told


statements = st.integers(0, 100_000).map(lambda seed: random_statement(seed).sql)


@given(statements)
@examples(300)
def test_a_random_statement(sql: str) -> None:
    assert_one_line(check(sql))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A statement that ends early, or has something odd in it, once or often."""
    sql = draw(statements)
    for _ in range(draw(st.integers(1, 3))):
        at, end = sorted(draw(st.tuples(*[st.integers(0, len(sql))] * 2)))
        put: Any = st.sampled_from(ODD) | st.text(max_size=5)
        deep = st.builds(lambda part, often: part * often, st.sampled_from(DEEP), st.sampled_from([2, 60, 2000]))
        sql = draw(
            st.sampled_from([sql[:at], sql[at:], sql[:at] + sql[end:], sql[:end] + sql[at:]])
            | st.builds(lambda text, at=at, sql=sql: f"{sql[:at]}{text}{sql[at:]}", put | deep)
        )
    return sql


@given(damaged())
@example("SELECT id AS k FROM a WHERE " + "(" * 2_000)
@example("SELECT " + "x + " * 2_000 + "x AS k FROM a")
@example("SELECT id AS k FROM a WHERE x IN (" + ", ".join(map(str, range(5_000))) + ")")
@example("SELECT '" + "y" * 200_000 + "' AS k FROM a")
@example("SELECT id AS k FROM a" + " UNION SELECT id FROM a" * 100)
@example("SELECT id AS k FROM a" + " CROSS JOIN a" * 100)
@example("\0")
@example("")
@examples(500)
def test_a_damaged_statement(sql: str) -> None:
    assert_one_line(check(sql))


@example(sql='\n"')
@given(st.text(max_size=200))
@examples(200)
def test_no_statement_at_all(sql: str) -> None:
    assert_one_line(check(sql))


@given(damaged(), st.sampled_from(["10 minutes", "1 day", "soon", "-1 hour"]))
@examples(100)
def test_a_window_that_closes(sql: str, final_after: str) -> None:
    assert_one_line(check(sql.replace("count(*)", "window(x, '1 hour')"), final_after=final_after))


@pytest.mark.parametrize(
    "call", ["window()", "window(x)", "window(x, 1)", "window(x, '1 hour', y)", "window(*, '1 day')"]
)
def test_an_odd_window_that_closes(call: str) -> None:
    told = check(f"SELECT {call} AS k, count(*) AS n FROM a GROUP BY {call}", final_after="1 minute")
    assert_one_line(told)
    assert told

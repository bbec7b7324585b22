"""What is text in the lake is told where a view takes it for more, and a numeric is followed as a decimal instead."""

from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.core.errors import IncompleteError
from cdc.run.dead_letters import drop, find_letter, list_blocked_keys
from cdc.run.pipeline import Pipeline as OpenedPipeline
from cdc.run.tables.column_notices import ask_tables
from cdc.run.verify.chains import check_chains
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, status_of, verify
from tests.support.cdc_subprocess import cdc as run_cdc
from tests.support.lake.read_rows import read_rows
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.ports import free_port

UNFIT = "which followers cannot hold unless it is followed as a wider decimal or text (source.column_types)"
AMOUNTS = (
    "CREATE DOMAIN cash AS numeric",
    "CREATE TABLE amounts (id numeric PRIMARY KEY, g int NOT NULL, money numeric, list numeric[], wide numeric,"
    " of_domain cash, list_of_domain cash[], hundreds numeric(5, -2), note text)",
    "INSERT INTO amounts VALUES (1, 1, 994.5, '{1,2.50}', 1e27), (2, 1, 5998.5, '{}', NULL), (3, 2, 1.000, NULL, 0)",
    "UPDATE amounts SET of_domain = 1.5, list_of_domain = '{2.25,NULL}', hundreds = 12345 WHERE id = 2",
    "CREATE EXTENSION citext",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TABLE things (id int PRIMARY KEY, c char(5), ci citext, m mood,"
    " twice int GENERATED ALWAYS AS (id * 2) STORED)",
    "INSERT INTO things VALUES (1, 'ab', 'AbC', 'ok'), (2, 'ab', 'ABC', 'sad'), (3, 'b', 'abc', 'happy')",
)
AS_DECIMALS = """  column_types:
    public.am*: {"*": "decimal(12,2)"}
    public.amounts: {wide: decimal(38), id: "decimal(20,3)"}
"""
OF_AMOUNTS = """history: [public.amounts]
views:
  shop.totals:
    key: [g]
    sql: SELECT g, max(money) AS most, sum(money) AS total, count_if(money > 1000) AS large FROM amounts GROUP BY g
  shop.large:
    key: [id]
    sql: SELECT id FROM amounts WHERE money > 1000
  shop.moods:
    key: [id]
    sql: SELECT id, rank() OVER (ORDER BY m) AS place FROM things WHERE c = 'ab' AND ci = 'abc'

"""
TOLD = (
    "public.things: followers do not have twice: Postgres sends no generated columns → ",
    "view shop.totals: public.amounts.money is a numeric without a precision, text in the lake: max, sum, > take it as"
    ' text → follow it as a decimal: source.column_types: {public.amounts: {money: "decimal(38,9)"}}',
    "view shop.large: public.amounts.money is a numeric without a precision, text in the lake: > takes it as text →"
    ' follow it as a decimal: source.column_types: {public.amounts: {money: "decimal(38,9)"}}',
    "view shop.moods: public.things.c is char(n), text with the blanks at its end in the lake: = takes it as text → use"
    " rtrim(c)",
    "view shop.moods: public.things.ci is citext, text in the lake, where upper and lower case differ: = takes it as"
    " text → use lower(ci)",
    "view shop.moods: public.things.m is an enum, whose labels are text in the lake and sort by their letters: ORDER BY"
    " takes it as text → sort by array_position(array('first label', 'second label'), m)",
)
STOPS = {
    "shop.totals": (
        "sum is refused (line 1, column 31): public.amounts.money is a numeric without a precision, text in the lake,",
        'follow it as a decimal: source.column_types: {public.amounts: {money: "decimal(38,9)"}}',
    ),
    "shop.large": ("CAST_INVALID_INPUT", f"({TOLD[2].partition(': ')[2].replace(' → ', '; ')})"),
}
"""What is said of views that stop while `money` is text."""


UNFIT_VALUES = (
    ("money", "NaN", "NaN or infinity"),
    ("money", "1.005", "a number beyond decimal(12,2)"),
    ("money", "1e10", "a number beyond decimal(12,2)"),
    ("money", "-Infinity", "NaN or infinity"),
    ("list", "{1,1.005}", "a number beyond decimal(12,2)"),
    ("wide", "1e38", "a number beyond decimal(38,0)"),
)
"""Column, value, and what is said of it."""


def read_view(pipeline: Pipeline, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in read_rows(pipeline, f"shop.{name}"))


def totals_of(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    return read_view(pipeline, "totals")


def check_texts_are_told(pipeline: Pipeline, said: str) -> None:
    """By the bootstrap, by `config check`, by the source and by the lake, and where a view could not be computed."""
    checked = run_cdc(pipeline, "config", "check").stderr
    settings = pipeline.settings
    silent = settings.model_copy(update={"source": settings.source.model_copy(update={"port": free_port()})})
    asked = ask_tables(OpenedPipeline(silent))
    assert asked
    of_lake = "\n".join(map(str, asked.notices))
    assert [line for line in TOLD if line not in said or line not in checked] == []
    assert [line for line in TOLD[1:] if line not in of_lake] == []
    status = status_of(pipeline)
    assert status.notes[0].startswith(TOLD[0])
    stops = {
        view: str(problem) for problem in status.problems.values() for view in STOPS if f"view {view} " in str(problem)
    }
    assert [view for view, words in STOPS.items() if any(word not in stops[view] for word in words)] == []
    assert read_view(pipeline, "moods") == []


def heed_what_is_told(pipeline: Pipeline) -> None:
    pipeline.configure("  on_schema_change:", f"{AS_DECIMALS}  on_schema_change:")
    pipeline.configure("c = 'ab' AND ci =", "rtrim(c) = 'ab' AND lower(ci) =")
    pipeline.configure("ORDER BY m)", "ORDER BY array_position(array('sad', 'ok', 'happy'), m))")


def check_remedies_help(pipeline: Pipeline, said: str) -> None:
    """The views have Postgres' own answers, which text would not give."""
    assert [line for line in TOLD[1:] if line in said] == []
    assert "view shop.totals goes on" in said
    assert read_view(pipeline, "moods") == [(1, 2), (2, 1)]
    assert read_view(pipeline, "large") == [(Decimal(2),)]
    assert totals_of(pipeline) == [
        (1, Decimal("5998.50"), Decimal("6993.00"), 1),
        (2, Decimal(1), Decimal(1), 0),
    ]


def list_reasons(pipeline: Pipeline) -> list[str]:
    """Why messages are held, of all keys."""
    places = [place for held in list_blocked_keys(pipeline.opened()) for place in held.locations]
    return sorted(find_letter(pipeline.opened(), place).message.refusal.reason for place in places)


def check_decimals_are_held(pipeline: Pipeline, spark: SparkSession) -> None:
    """Each value that does not fit holds its key, and says why; its neighbours go on."""
    for number, (column, value, _) in enumerate(UNFIT_VALUES, 10):
        assigned = f"UPDATE amounts SET {column} = '{value}' WHERE id = {number}"
        pipeline.run(f"INSERT INTO amounts VALUES ({number}, 9, 1)", assigned)
    # a key that does not fit, and a neighbour
    pipeline.run("INSERT INTO amounts VALUES (0.0001, 9, 1), (30, 9, 1)")
    catch_up_but_for(pipeline, spark, f"public.amounts: {len(UNFIT_VALUES) + 1} keys held, ")
    expected = [f"column {column} holds {why}, {UNFIT}" for column, _, why in UNFIT_VALUES]
    expected.append(f"key column id holds a number beyond decimal(20,3), {UNFIT}")
    assert list_reasons(pipeline) == sorted(
        reason.replace(" or text", "") if "list" in reason else reason for reason in expected
    )
    assert totals_of(pipeline)[2] == (9, Decimal(1), Decimal(len(UNFIT_VALUES) + 1), 0)
    assert "public.amounts: column" in str(verify(pipeline, spark).incomparable)


def drop_first_letters(pipeline: Pipeline) -> None:
    drop(pipeline.opened(), [each.locations[0] for each in list_blocked_keys(pipeline.opened())])


def mend_amounts(pipeline: Pipeline) -> None:
    """Give the rows other values in the source, and discard the refused messages, as the page says."""
    pipeline.run("UPDATE amounts SET money = 2, list = NULL, wide = 7 WHERE id BETWEEN 10 AND 20")
    pipeline.run("DELETE FROM amounts WHERE id < 1")
    drop_first_letters(pipeline)


def add_late_view(pipeline: Pipeline) -> None:
    """Add a view that no bootstrap has seen."""
    late = "  shop.late: {key: [id], sql: SELECT id FROM things WHERE c > 'a'}\n"
    of_amounts = "  shop.means: {key: [g], sql: 'SELECT g, avg(money) AS mean FROM amounts GROUP BY g'}\n"
    pipeline.configure("  shop.moods:\n", f"{late}{of_amounts}  shop.moods:\n")


def check_past(pipeline: Pipeline, spark: SparkSession, epochs: int) -> None:
    """The past is what it was, whatever is chosen for the key and the other columns."""
    assert [each.is_whole for each in check_chains(pipeline.opened(spark))] == [True] * epochs


def check_all(pipeline: Pipeline, spark: SparkSession, epochs: int) -> None:
    """Every row is the source's, and so is the end of the history."""
    assert verify(pipeline, spark).is_equal
    check_past(pipeline, spark, epochs)


def choose_and_declare_others(pipeline: Pipeline) -> None:
    """The key's own choice goes, and the source declares digits for another column, which no pattern chooses then."""
    pipeline.configure(', id: "decimal(20,3)"', "")
    pipeline.run("ALTER TABLE amounts ALTER money TYPE numeric(20,2)", "UPDATE amounts SET money = money + 0.01")


def test_numeric_as_decimal(
    make_pipeline: MakePipeline, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make_pipeline(*AMOUNTS, tables=("public.amounts", "public.things"))
    pipeline.configure("followers:\n", f"{OF_AMOUNTS}followers:\n")
    with pytest.raises(IncompleteError, match=r"view shop\.totals .*\n?.*view shop\.large"):
        bootstrap(pipeline, spark)
    check_texts_are_told(pipeline, capsys.readouterr().err)
    heed_what_is_told(pipeline)
    assert set(map(str, bootstrap(pipeline, spark).copied)) == {"public.amounts"}
    catch_up(pipeline, spark)
    check_remedies_help(pipeline, capsys.readouterr().err)
    pipeline.run(
        # one number in another scale is the same row
        "UPDATE amounts SET id = 1.000, money = 994.50 WHERE id = 1",
        "INSERT INTO amounts VALUES (4, 2, 9999999999.99, '{-0.01,NULL}', -99999999999999999999999999999999999999)",
        "INSERT INTO amounts VALUES (5, 3, 1, NULL, NULL)",
        "UPDATE amounts SET money = money + 0.01 WHERE id = 2",
        "UPDATE amounts SET of_domain = -0.1, list_of_domain = '{3}', hundreds = -67800, note = 'x' WHERE id = 3",
        "DELETE FROM amounts WHERE id = 5",
    )
    catch_up(pipeline, spark)
    check_past(pipeline, spark, 2)
    assert totals_of(pipeline)[0] == (1, Decimal("5998.51"), Decimal("6993.01"), 1)
    check_decimals_are_held(pipeline, spark)
    mend_amounts(pipeline)
    # the delete of the key that does not fit
    catch_up_but_for(pipeline, spark, "public.amounts: 1 key held, 1 message not applied")
    drop_first_letters(pipeline)
    assert verify(pipeline, spark).is_equal
    assert totals_of(pipeline)[2] == (9, Decimal(2), Decimal(2 * len(UNFIT_VALUES) + 1), 0)
    add_late_view(pipeline)
    choose_and_declare_others(pipeline)
    catch_up(pipeline, spark)
    assert "view shop.late: public.things.c is char(n)" in capsys.readouterr().err
    check_all(pipeline, spark, 3)
    assert totals_of(pipeline)[0] == (1, Decimal("5998.52"), Decimal("6993.03"), 1)

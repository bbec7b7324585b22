"""Random expressions composed of the forms of the list."""

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pyarrow as pa
from pyspark.errors import PySparkException

from cdc.columns.types.arrow_types import arrow_schema
from cdc.core.table import Column, Kind, Table
from cdc.views.statement.parsing import parse_statement
from tests.support.views.proof import T_NAME, accept, forms
from tests.support.views.statements.edge_values import EDGES, to_array
from tests.support.views.two_engines import Accepted, Engines, Results

DEEPEST = 3
_ROWS = 24
_LITERALS = ("1", "-3", "2.5", "0.125", "'a'", "''", "TRUE", "DATE'2020-02-29'")
_ESCAPING = re.compile(r"struct|nullif|BETWEEN|CASE a WHEN")
"""Forms whose errors Spark's TryEval does not make nulls: it computes an argument that is used twice before, and has no
null in place of a struct whose fields are never null. Alone they are tried without such errors."""
_LONGEST = 400
"""Letters of an expression: of a longer one, only the depth would be new."""


def random_table(random: Random) -> tuple[Table, pa.Table]:
    """A table `t` with a column `c0`, `c1` and so on of each type: random rows of its edge values."""
    columns = [replace(column, name=f"c{at}") for at, (column, _) in enumerate(EDGES.values())]
    table = Table(T_NAME, (Column("n", Kind.INTEGER), *columns), ("n",))
    schema = arrow_schema(table)
    arrays = [
        to_array([random.choice([None, *values]) for _ in range(_ROWS)], schema.field(f"c{at}").type)
        for at, (_, values) in enumerate(EDGES.values())
    ]
    return table, pa.Table.from_arrays([pa.array(range(_ROWS), pa.int32()), *arrays], schema=schema)


def compose(random: Random, table: Table, count: int) -> Mapping[str, Accepted]:
    """So many different expressions that the list accepts over this table, grown from columns and literals."""
    grown = dict.fromkeys([*table.column_names[1:], *_LITERALS], 0)
    found = dict[str, Accepted]()
    usable = [form for form in forms() if form.arity and not _ESCAPING.search(form.text)]
    while len(found) < count:
        form = random.choice(usable)
        # half of the arguments are composed themselves
        shallow = [text for text, depth in grown.items() if depth < DEEPEST]
        pool = shallow[-2 * count :] if random.random() < 0.5 else shallow[: len(EDGES) + len(_LITERALS)]
        parts = {name: random.choice(pool) for name in "abc"}
        text = substitute(form.text, parts)
        used = [parts[name] for name in "abc"[: form.arity]]
        # Spark computes a constant before it has a row, and an error of it is one of the statement
        if text in found or len(text) > _LONGEST or set(used) <= set(_LITERALS):
            continue
        if sql := accept(parse_statement("v", f"SELECT {text} AS v FROM t", {T_NAME: table})):
            found[text] = sql
            grown[text] = 1 + max(grown[part] for part in used)
    return found


def compare_apart(engines: Engines, expressions: Mapping[str, Accepted]) -> dict[str, Results]:
    """Compare these expressions, but for those whose error in Spark ends the job: TryEval does not make it a null."""
    try:
        return engines.compare(expressions)
    except PySparkException:
        if len(expressions) == 1:
            return {}
    texts = list(expressions)
    halves = (texts[: len(texts) // 2], texts[len(texts) // 2 :])
    one, other = (compare_apart(engines, {text: expressions[text] for text in half}) for half in halves)
    return {**one, **other}


def substitute(form: str, parts: Mapping[str, str]) -> str:
    """A form with these expressions for its arguments."""
    pieces = re.split(r"('(?:[^'\\]|\\.)*')", form)
    # every second piece is a literal
    pieces[::2] = [re.sub(r"\b[abc]\b", lambda name: f"({parts[name[0]]})", piece) for piece in pieces[::2]]
    return "".join(pieces)

"""Whatever a statement is, it is compiled or refused in one line: no other error, and none that nobody thought of."""

import os
from collections.abc import Iterator
from random import Random

import pytest

from cdc.core.errors import ConfigurationError
from cdc.views.compiled import compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.explanation import explain
from cdc.views.statement.parsing import check_view
from tests.support.further import further
from tests.support.views.statements import grammar
from tests.support.views.statements.forms import FORBIDDEN, FORMS
from tests.support.views.statements.grammar import TABLES, Grammar
from tests.support.views.statements.statement_checks import find_trouble, read_statement
from tests.support.views.trials import random_statement

FIRST = int(os.environ.get("CDC_TEST_SEED", "0"))
_WORDS = (
    "SELECT FROM WHERE GROUP BY ( ) , . * id a b NULL = UNION LIMIT 1 OVER JOIN ON AS 'x' ` CASE END [ ] -> : DISTINCT"
)


def read(sql: str, key: tuple[str, ...]) -> str | None:
    """Why a statement is refused, by the file alone and with its tables; None if it is not."""
    try:
        check_view("shop.v", sql, key)
        assert explain(compile_view(ViewDefinition.of("shop.v", sql, key), TABLES)).uses is not None
    except ConfigurationError as error:
        return error.what
    return None


@pytest.mark.parametrize("seeds", [range(FIRST, FIRST + 300), further("more", range(FIRST + 300, FIRST + 5000))])
def test_a_statement_is_read_or_refused(seeds: range) -> None:
    """Further: more of the same grammar."""
    refused = 0
    for seed in seeds:
        statement = Grammar(Random(seed), odd=seed % 2).statement()
        found = read_statement(statement)
        assert not find_trouble(statement, found), (seed, statement)
        refused += found.view is None
    assert 0 < refused < 2 * len(seeds) // 3


def test_every_form_is_written_soon() -> None:
    """A form that the grammar does not write is no question to anybody."""
    assert {*map(random_form, range(1000))} >= {*FORMS, *FORBIDDEN}


def random_form(seed: int) -> str | None:
    """The form of a seed's statement, if it is one of a finding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "write_form", lambda name, random: name)
        sql = random_statement(seed).sql
    return sql if sql in {*FORMS, *FORBIDDEN} else None


@pytest.mark.parametrize("seeds", [range(FIRST, FIRST + 300), further("more", range(FIRST + 300, FIRST + 5000))])
def test_a_damaged_statement_is_refused_in_one_line(seeds: range) -> None:
    """Further: more of the same."""
    for seed in seeds:
        random = Random(seed)
        statement = Grammar(random).statement()
        sql = " ".join(damage(statement.sql.split(" "), random))
        assert "\n" not in (read(sql, statement.key) or ""), (seed, sql)


def damage(words: list[str], random: Random) -> Iterator[str]:
    """Some words left out, twice, or others."""
    for word in words:
        match random.randrange(40):
            case 0:
                pass
            case 1:
                yield from (word, word)
            case 2:
                yield random.choice(_WORDS.split())
            case _:
                yield word

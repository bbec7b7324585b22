"""What is asked of a random statement before any row is looked at: is it read, refused and meant as it should be?"""

import re
from dataclasses import dataclass
from typing import Final

from cdc.core.errors import ConfigurationError
from cdc.views.compiled import CompiledView, compile_view
from cdc.views.definition import ViewDefinition
from cdc.views.explanation import explain
from cdc.views.statement.final_windows import list_read_tables
from cdc.views.statement.parsing import check_view
from tests.support.views.statements.grammar import TABLES, RandomStatement

_HINT: Final = re.compile(r"/\*\+.*?\*/")
_FORBIDDEN: Final = re.compile(
    r"DATE'today'|TIMESTAMP'now'|Yesterday'|current_date|\bnow\(|reflect\(|java_method\(|TRANSFORM \(|AS OF '"
    r"|TABLESAMPLE|\) AS \(|\$\{|SELECT \* FROM b PIVOT"
)
"""What no statement may have, which the file alone shows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement compiled, or the line by which it is refused."""

    view: CompiledView | None
    refused: str = ""


def read_statement(statement: RandomStatement) -> Reading:
    """As `cdc config check` and then `cdc bootstrap` read it."""
    definition = ViewDefinition.of("shop.v", statement.sql, statement.key)
    try:
        check_view("shop.v", statement.sql, statement.key)
        view = compile_view(definition, TABLES)
        assert explain(view).uses is not None
        view.sources()
    except ConfigurationError as error:
        return Reading(None, error.what)
    except Exception as error:  # noqa: BLE001
        return Reading(None, f"it cannot be read: {error!r}")
    return Reading(view)


def find_trouble(statement: RandomStatement, found: Reading) -> str | None:
    """What is wrong with how a statement was read."""
    if "it cannot be read" in found.refused or "nested too deep" in found.refused:
        return found.refused
    if "\n" in found.refused:
        return f"more than one line: {found.refused}"
    if _FORBIDDEN.search(statement.sql) and _is_let_in(statement):
        return "it is let in by the file alone"
    if len({name.lower() for name in statement.key}) < len(statement.key) and found.view:
        return "its key has a name twice"
    if found.view and not {*list_read_tables(found.view.definition)} <= {*TABLES}:
        return "it names tables that nobody follows"
    return _find_hint(statement, found)


def _is_let_in(statement: RandomStatement) -> bool:
    try:
        check_view("shop.v", statement.sql, statement.key)
    except ConfigurationError:
        return False
    return True


def _find_hint(statement: RandomStatement, found: Reading) -> str | None:
    """A hint means nothing."""
    # all else stays in its place
    plain = _HINT.sub(lambda hint: " " * len(hint[0]), statement.sql)
    if plain == statement.sql:
        return None
    other = read_statement(RandomStatement(plain, statement.key))
    if (found.view is None) != (other.view is None):
        return f"a hint changes what is said: {found.refused or other.refused}"
    is_same = found.view is None or other.view is None or found.view.plan == other.view.plan
    return None if is_same else "a hint changes the plan"

"""What no view may have: expressions that give another result each time they are computed."""

from cdc.core.errors import ConfigurationError
from cdc.views.statement.analysis.floating_sums import find_floating_sums
from cdc.views.statement.analysis.special_texts import find_special_texts
from cdc.views.statement.analysis.ties import find_ties
from cdc.views.statement.entrance.admission import Refused
from cdc.views.statement.statement import Statement


def check_deterministic(view: str, statement: Statement) -> None:
    """Raise ConfigurationError for an expression that may give another result when it is computed again."""
    for refused in find_refused(statement):
        raise ConfigurationError(
            f"views.{view}: {refused.name} is refused{refused.where}: {refused.why}", "correct its sql"
        )


def find_refused(statement: Statement) -> list[Refused]:
    """The expressions for which a statement is refused as a view."""
    tree = statement.tree
    found = [*find_ties(tree), *find_floating_sums(tree), *find_special_texts(tree)]
    return [*dict.fromkeys([*statement.admission.refused, *found])]

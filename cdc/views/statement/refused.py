"""What no view may have: expressions that give another result each time they are computed."""

from cdc.core.errors import ConfigurationError
from cdc.views.statement.entrance.admission import Refused
from cdc.views.statement.entrance.determined import RowIdentity
from cdc.views.statement.entrance.floating_sums import find_floating_sums
from cdc.views.statement.entrance.special_texts import find_special_texts
from cdc.views.statement.entrance.ties import find_ties
from cdc.views.statement.lineage import Lineage
from cdc.views.statement.statement import Statement


def check_deterministic(view: str, statement: Statement) -> None:
    """Raise ConfigurationError for an expression that may give another result when it is computed again."""
    for refused in find_refused(statement):
        raise ConfigurationError(
            f"views.{view}: {refused.name} is refused{refused.where}: {refused.why}", "correct its sql"
        )


def find_refused(statement: Statement) -> list[Refused]:
    """The expressions for which a statement is refused as a view."""
    lineage = Lineage(statement)
    ties = find_ties(RowIdentity(statement, lineage), lineage)
    values = [*find_floating_sums(statement, lineage), *find_special_texts(lineage)]
    return [*dict.fromkeys([*statement.admission.refused, *ties, *values])]

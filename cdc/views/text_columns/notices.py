"""One line for each column that a view uses as what it is in Postgres, while it is text in the lake."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.columns.types.text_meaning import Meaning, UseKind
from cdc.core.errors import ConfigurationError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_readable
from cdc.views.statement.final_windows import close_windows
from cdc.views.statement.parsing import parse_statement
from cdc.views.text_columns.meanings import find_meaning, write_remedy
from cdc.views.text_columns.uses import ColumnUse, Origins, UseFinder

_LOG: Final = logging.getLogger(__name__)
_SPARKS_CONDITION: Final = re.compile(r"\[[A-Z][A-Z_.]+\]")


@dataclass(frozen=True, slots=True)
class TextNotice:
    """A view's use of a column of a table: what the column is, by which words of SQL it is used, and what helps."""

    view: TableName
    table: Table
    column: Column
    meaning: Meaning
    words: tuple[str, ...]

    @property
    def cause(self) -> str:
        verb = "takes" if len(self.words) == 1 else "take"
        return f"{self.table.name}.{self.column.name} {self.meaning.what}: {', '.join(self.words)} {verb} it as text"

    @property
    def remedy(self) -> str:
        return write_remedy(self.meaning, self.table, self.column.name)


def find_notices(views: Iterable[ViewDefinition], tables: Mapping[TableName, Table]) -> list[TextNotice]:
    """The notices of all views over these tables; of a view that cannot be read there are none."""
    notices, known, of_views = list[TextNotice](), dict(tables), dict[tuple[TableName, str], Origins]()
    for view in sort_readable(views)[0]:
        uses, outputs = _read_view(view, known, of_views)
        notices += _to_notices(view.name, known, uses)
        of_views |= {(view.name, name): origins for name, origins in outputs.items()}
        # for the views that read it: only the names of its columns are needed
        known.setdefault(view.name, Table(view.name, tuple(Column(name, Kind.TEXT) for name in outputs), view.key))
    return notices


def explain_stop(
    reason: str, view: TableName, views: Iterable[ViewDefinition], tables: Mapping[TableName, Table]
) -> str:
    """The reason why a view has stopped; with what may have caused it, where Spark could not compute the statement."""
    if not _SPARKS_CONDITION.search(reason):
        return reason
    causes = [notice for notice in find_notices(views, tables) if notice.view == view]
    return " ".join([reason, *(f"({notice.cause}; {notice.remedy})" for notice in causes)])


def _read_view(
    view: ViewDefinition, tables: Mapping[TableName, Table], of_views: Mapping[tuple[TableName, str], Origins]
) -> tuple[Sequence[ColumnUse], Mapping[str, Origins]]:
    """The uses in a view's statement, and where its columns come from; nothing if it cannot be read."""
    try:
        finder = UseFinder(parse_statement(str(view.name), close_windows(view, tables), tables), of_views)
        return list(finder.find()), finder.list_outputs()
    # told where the statement itself is checked
    except ConfigurationError:
        return [], {}
    except Exception:  # noqa: BLE001 - a notice is worth no error
        _LOG.debug("view %s has no notices", view.name, exc_info=True)
        return [], {}


def _to_notices(view: TableName, tables: Mapping[TableName, Table], uses: Iterable[ColumnUse]) -> list[TextNotice]:
    words = dict[tuple[TableName, Column], dict[str, None]]()
    for use in uses:
        meaning = find_meaning(use.column)
        if meaning and _is_other(use, meaning):
            words.setdefault((use.table, use.column), {})[use.word] = None
    found = sorted(words.items(), key=lambda item: (item[0][0], item[0][1].number, item[0][1].name))
    return [
        TextNotice(view, tables[table], column, meaning, tuple(names))
        for (table, column), names in found
        if (meaning := find_meaning(column))
    ]


def _is_other(use: ColumnUse, meaning: Meaning) -> bool:
    if use.kind is UseKind.LITERAL and use.literal is not None and meaning.is_written_so(use.literal):
        return False
    return use.kind in meaning.uses

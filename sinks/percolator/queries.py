"""The saved searches: read from rows, checked, and written as documents of a percolator index."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from cdc.columns.feed import FeedRows
from cdc.columns.rows.documents import key_documents
from cdc.core.containment import contain_errors
from cdc.core.table import Table
from cdc.sinks.opensearch.bulk import Addresses, Operations, deletes, puts, shorten
from cdc.sinks.percolator import kinds
from cdc.sinks.percolator.fields import name_fields, searched_fields
from cdc.sinks.percolator.layout import OwnFields

Key = str
"""The key of a row, of a query's or of a matched one, as its key document."""
Texts = Mapping[Key, str | None]
"""What the queries' rows have in their column, by key; None for a deleted row, and for null."""
PORTION: Final = 10_000
"""Queries of one array: Arrow's string arrays end at 2 GiB."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries by key: those to try, those that cannot be queries, with the reason, and those that are gone."""

    texts: Mapping[Key, str]
    refused: Mapping[Key, str]
    gone: Sequence[Key] = ()

    @classmethod
    def of(cls, found: Texts, *, has_scripts: bool = False) -> "Queries":
        """Read what rows have: null is no query."""
        there = {key: text for key, text in found.items() if text is not None}
        texts, refused = _map_texts(there, lambda text: _checked(one_line(text), has_scripts=has_scripts))
        return cls(texts, refused, [key for key in found if key not in there])

    def for_table(self, table: Table) -> "Queries":
        """The same for the rows of one table, whose fields stand in queries that name none."""
        fields = searched_fields(table)
        texts, refused = _map_texts(self.texts, lambda text: name_fields(text, fields))
        return Queries(texts, {**self.refused, **refused}, self.gone)


def _map_texts(texts: Mapping[Key, str], change: Callable[[str], str]) -> tuple[dict[Key, str], dict[Key, str]]:
    """The changed texts; and those that could not be changed, whatever the error was, with the reason."""
    changed, refused = dict[Key, str](), dict[Key, str]()
    for key, text in texts.items():
        with contain_errors(f"saved search {key}", partial(refused.__setitem__, key)):
            try:
                changed[key] = change(text)
            except ValueError as error:
                refused[key] = str(error)
            except RecursionError:
                refused[key] = "it is nested too deeply"
    return changed, refused


def _checked(text: str, *, has_scripts: bool) -> str:
    kinds.check_query(json.loads(text), has_scripts=has_scripts)
    return text


def one_line(text: str) -> str:
    """The query as one line of JSON; raises ValueError with the reason when it is no JSON object."""
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    # valid JSON has line ends between its parts only; the text itself is kept, since a float may have any digits
    return text.replace("\r", " ").replace("\n", " ")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def changed_texts(changes: Iterable[FeedRows], table: Table, column: str) -> dict[Key, str | None]:
    """The texts of changed rows of the queries' table."""
    found = dict[Key, str | None]()
    for part in changes:
        keys = key_documents(part.rows, table).to_pylist()
        found |= zip(keys, part.rows[column].to_pylist(), strict=True)
        found |= dict.fromkeys(key_documents(part.gone, table).to_pylist())
    return found


def to_operations(queries: Queries, own: OwnFields, version: int) -> Iterator[Operations]:
    """Make the actions that bring a percolator index to these queries."""
    keys = list(queries.texts)
    for some in (keys[at : at + PORTION] for at in range(0, len(keys), PORTION)):
        texts = [f'{{"{own.query}":{queries.texts[key]},"{own.key}":{json.dumps(key)}}}' for key in some]
        yield puts(Addresses(ids_of(some)), pa.array(texts, pa.string()), version)
    if gone := [*queries.gone, *queries.refused]:
        yield deletes(Addresses(ids_of(gone)), version)


def ids_of(keys: Iterable[Key]) -> pa.Array:
    return shorten(pa.array(list(keys), pa.string()))

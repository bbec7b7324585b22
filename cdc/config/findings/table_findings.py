"""Problems of `source.tables`, and of the settings that name tables, which the file shows by itself."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cdc.connect.settings import SourceSettings
from cdc.core.selection import ANY, BUT, Selection, is_exclusion, is_pattern
from cdc.core.settings import Finding
from cdc.core.table import TableName

IDENTIFIER_BYTES = 63
"""The longest name in Postgres (manual, "Identifiers and Key Words")."""

A_PATTERN: Final = "is a pattern: name each table"
"""Of a list that is read name by name, where a pattern would match nothing without a word."""


def reads_as_pattern(text: str) -> bool:
    """Is it meant as a pattern, where names are asked for? A table's own name may have a `*` within."""
    table = TableName.parse(text).table
    return table.startswith(ANY) or table.endswith(ANY)


def find_unnamed(text: str, selection: Selection) -> str | None:
    """What is wrong with an entry of a list that is read name by name; None for a table of `source.tables`."""
    if reads_as_pattern(text):
        return A_PATTERN
    return None if TableName.parse(text) in selection else "is none of source.tables"


def entry(text: str) -> str:
    """An entry of `source.tables` with its schema."""
    return f"{BUT if is_exclusion(text) else ''}{TableName.parse(text.removeprefix(BUT))}"


def table_finding(text: str) -> str | None:
    """The reason why `text` is no name or pattern of tables; None if it is one."""
    name = TableName.parse(text.strip().removeprefix(BUT))
    if not name.schema.strip() or not name.table.strip():
        return f'"{text}" is not a table\'s name: schema.table'
    # Postgres counts bytes, not characters
    if max(len(part.encode()) for part in (name.schema, name.table)) > IDENTIFIER_BYTES:
        return f"a name in Postgres has at most {IDENTIFIER_BYTES} bytes"
    return None


def early_table_findings(values: Mapping[str, Any]) -> list[Finding]:
    """Find problems with the tables if the `source` block failed earlier, before they were validated."""
    source = values.get("source")
    tables = source.get("tables") if isinstance(source, Mapping) else None
    # pydantic has told that already
    if not isinstance(source, Mapping) or not isinstance(tables, list):
        return []
    # numbered, so that two of them do not count as the same table
    names = [text.strip() if isinstance(text, str) else f"not text {index}" for index, text in enumerate(tables)]
    heartbeat = source.get("heartbeat_schema", SourceSettings.model_fields["heartbeat_schema"].default)
    return [(("source", *place), finding) for place, finding in find_wrong_tables(names, heartbeat)]


def find_wrong_policies(source: SourceSettings) -> Iterable[Finding]:
    """Settings of tables that are not followed."""
    blocks: Mapping[str, Iterable[str]] = {
        "on_schema_change_of": source.on_schema_change_of,
        "keys": source.keys,
        "mask": [name for name in source.mask if not is_pattern(name)],
        "where": [name for name in source.where if not is_pattern(name)],
        "column_types": [name for name in source.column_types if not _may_match(name, source.selection)],
    }
    for block, names in blocks.items():
        for name in names:
            if why := find_unnamed(name, source.selection):
                # of column types, patterns that match nothing are left here
                yield (block, name), "is none of source.tables" if block == "column_types" else why
    for name, columns in source.column_types.items():
        if columns.get(ANY) == "text":
            yield ("column_types", name, ANY), "is every numeric that is text anyway: name columns"
    yield from _find_wrong_masks(source)


def _find_wrong_masks(source: SourceSettings) -> Iterable[Finding]:
    for block, names in (("mask", source.mask), ("where", source.where)):
        counts = Counter(TableName.parse(name) for name in names if not is_pattern(name))
        yield from (((block, name), why) for name in names if (why := _find_misnamed(name, counts)))
    # once: it reads every mask, and hashes by the secret
    choices = source.choices
    for name, columns in source.mask.items():
        of = choices.types_of(TableName.parse(name))
        for column, text in columns.items():
            if of.named.get(column):
                yield ("mask", name, column), "is in source.column_types, too: a mask decides the type"
            if text == "hash" and source.mask_secret is None:
                yield ("mask", name, column), "needs source.mask_secret"


def _find_misnamed(name: str, counts: Mapping[TableName, int]) -> str | None:
    if is_pattern(name):
        return "is a pattern: name each table, so that none of its columns is missed"
    return "is there twice" if counts[TableName.parse(name)] > 1 else None


def _may_match(pattern: str, selection: Selection) -> bool:
    """Is it a pattern of tables, some of which are followed, or may be once they are made?"""
    if not is_pattern(pattern):
        return False
    return selection.has_patterns or bool(Selection.of([pattern]).select_from(selection.names))


def find_wrong_tables(tables: Sequence[str], heartbeat_schema: str) -> list[Finding]:
    """Names of `source.tables` that are none, are there twice, or lie in our own schema."""
    seen: set[str] = set()
    findings: list[Finding] = []
    for index, text in enumerate(tables):
        named = entry(text.strip())
        finding = table_finding(text) or _find_misplaced(named, seen, heartbeat_schema)
        if finding:
            findings.append((("tables", index), finding))
        seen.add(named)
    if tables and all(is_exclusion(text.strip()) for text in tables):
        findings.append((("tables",), "only says which tables are not followed"))
    return findings


def _find_misplaced(named: str, seen: set[str], heartbeat_schema: str) -> str | None:
    if named in seen:
        return f"{named} is there twice"
    if TableName.parse(named).schema == heartbeat_schema:
        return f"{named} lies in the toolkit's own schema, '{heartbeat_schema}' (heartbeat_schema)"
    return None

"""What other writers may do to a table of the lake, and what it means for its own writer.

They may move rows from file to file (OPTIMIZE, REORG) and forget the past (VACUUM). A commit of theirs that changes
rows makes another table of it, whose index of keys nobody has: RESTORE, for instance, brings back files whose rows the
index has dropped. So such a table is copied again. Features and properties that ask of every writer what ours does not
do are refused by name.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from cdc.core.errors import PreconditionError
from sinks.lake.delta.snapshot import Action, State

ENGINE: Final = "cdc-toolkit"
"""What our commits name as their engine."""
COPY: Final = "COPY"
"""The operation by which a table gets its copy: what others did before that is gone with it."""

KNOWN_FEATURES: Final = frozenset(
    {"appendOnly", "invariants", "changeDataFeed", "deletionVectors", "timestampNtz", "checkConstraints"}
    | {"generatedColumns", "variantType", "variantType-preview"}
)
"""What may be declared without changing what we write; the last two stand in tables of older versions of ours."""

_ASKED_FOR: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "delta.appendOnly": (["true"], "which forbids to update and delete rows"),
    "delta.columnMapping.mode": (["name", "id"], "whose column names our files do not have"),
    "delta.enableDeletionVectors": (["false"], "by which rows are deleted here"),
}
"""Properties with values that a writer has to heed (Delta protocol, "Writer Version Requirements")."""
_FORBIDDEN: Final[Mapping[str, str]] = {
    "delta.constraints.": "which cdc cannot check",
    "delta.setTransactionRetentionDuration": "by which checkpoints forget the positions that the toolkit keeps there",
}
"""Properties, by what their names begin with, that must not be there."""
_OF_COLUMNS: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def changed_rows(version: int, actions: Sequence[Action], state: State, removed: Container[str]) -> str | None:
    """How another writer's commit changes rows, on top of a state; None where it does not, or is ours.

    `removed`: files that were taken out of the table before.
    """
    info = commit_info(actions)
    if info.get("engineInfo") == ENGINE:
        return None
    moved = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    came = [action["add"]["path"] for action in actions if "add" in action]
    back = any(path in removed and path not in state.files for path in came)
    if not back and not any(each.get("dataChange", True) for each in moved):
        return None
    return f"another writer's {info.get('operation') or 'commit'} (version {version}) changed its rows"


def is_copy(actions: Sequence[Action]) -> bool:
    """Does this commit put our copy in place of all that was there?"""
    info = commit_info(actions)
    return info.get("engineInfo") == ENGINE and info.get("operation") == COPY


def commit_info(actions: Sequence[Action]) -> Mapping[str, Any]:
    """Who committed what, as far as the commit says."""
    found: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return found


def unknown(state: State) -> PreconditionError | None:
    """Which features others have given a table that cdc knows nothing of; None where there are none."""
    name, protocol = state.metadata.get("name"), state.protocol
    declared = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if not (found := sorted(declared - KNOWN_FEATURES)):
        return None
    return PreconditionError(
        f"table {name} of the lake was given {', '.join(found)}, which cdc cannot write",
        "drop the feature (ALTER TABLE … DROP FEATURE), or bootstrap into another path",
    )


def forbidden(state: State, uri: str) -> PreconditionError | None:
    """Which property or condition of a table asks of its writers what cdc does not do; None where none does."""
    name = state.metadata.get("name")
    for key, value in state.configuration.items():
        if why := _forbids(key, value):
            return PreconditionError(
                f"table {name} of the lake was given {key} = {value}, {why}",
                f"ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('{key}')",
            )
    if found := next(_conditions(state), None):
        return PreconditionError(f"table {name} of the lake was given {found}, which cdc cannot check", "undo that")
    return None


def _forbids(key: str, value: str) -> str | None:
    values, why = _ASKED_FOR.get(key, ((), ""))
    if str(value).lower() in values:
        return why
    return next((why for begin, why in _FORBIDDEN.items() if key.startswith(begin)), None)


def _conditions(state: State) -> Iterator[str]:
    """What the table's columns are bound to."""
    for column in json.loads(state.metadata.get("schemaString") or "{}").get("fields", ()):
        if not column.get("nullable", True):
            yield f"NOT NULL on column {column['name']}"
        for key in _OF_COLUMNS:
            if key in column.get("metadata", ()):
                yield f"{key} on column {column['name']}"

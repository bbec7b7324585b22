"""Rules for other writers of our tables.

They may move rows between files (OPTIMIZE, REORG) and delete the past (VACUUM). When they change rows, our key index no
longer fits: RESTORE, for instance, revives rows that the index dropped. Such a table is copied again. Table features
and properties that our writer does not implement are refused by name.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from cdc.core.errors import PreconditionError
from cdc.sinks.lake.delta.actions import Action, Add, Remove, commit_info, of_type
from cdc.sinks.lake.delta.snapshot import Snapshot

ENGINE: Final = "cdc-toolkit"
"""The engine name in our commits."""
COPY: Final = "COPY"
"""The operation of a copy's commit: it voids all earlier changes of other writers."""

# the feature of a constraint may be declared and unused: `find_write_blocker` looks for its use
KNOWN_FEATURES: Final = frozenset(
    {"appendOnly", "invariants", "changeDataFeed", "deletionVectors", "timestampNtz", "checkConstraints"}
    | {"generatedColumns"}
)
"""Features that do not change how we write."""

_BLOCKING_VALUES: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "delta.appendOnly": (["true"], "which forbids to update and delete rows"),
    "delta.columnMapping.mode": (["name", "id"], "whose column names our files do not have"),
    "delta.enableDeletionVectors": (["false"], "by which rows are deleted here"),
}
"""Property values that writers must implement (Delta protocol, "Writer Version Requirements"), and why we cannot."""
_BLOCKING_PREFIXES: Final[Mapping[str, str]] = {
    "delta.constraints.": "which cdc cannot check",
    "delta.setTransactionRetentionDuration": "by which checkpoints forget the positions that the toolkit keeps there",
}
"""Prefixes of property names that must not be set, and why."""
_COLUMN_CONSTRAINTS: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def describe_row_change(
    version: int, actions: Sequence[Action], snapshot: Snapshot, removed: Container[str]
) -> str | None:
    """Describe how another writer's commit changes rows of the snapshot; None when it is ours or changes none.

    `removed`: paths of files that were removed earlier.
    """
    info = commit_info(actions)
    if info.engine_info == ENGINE:
        return None
    files = [action for action in actions if isinstance(action, Add | Remove)]
    added = [add.path for add in of_type(actions, Add)]
    # RESTORE may set dataChange to false, but it revives rows that the index dropped
    is_restored = any(path in removed and path not in snapshot.files for path in added)
    if not is_restored and not any(file.data_change for file in files):
        return None
    return f"another writer's {info.operation or 'commit'} (version {version}) changed its rows"


def is_copy(actions: Sequence[Action]) -> bool:
    """Whether this commit replaced the whole content by our copy."""
    info = commit_info(actions)
    return info.engine_info == ENGINE and info.operation == COPY


def find_unknown_features(snapshot: Snapshot) -> PreconditionError | None:
    """The error for table features that the toolkit does not know; None when it knows all."""
    declared = {*snapshot.reader_features, *snapshot.writer_features}
    if not (features := sorted(declared - KNOWN_FEATURES)):
        return None
    return PreconditionError(
        f"table {snapshot.name} of the lake was given {', '.join(features)}, which cdc cannot write",
        "drop the feature (ALTER TABLE … DROP FEATURE), or bootstrap into another path",
    )


def find_write_blocker(snapshot: Snapshot, uri: str) -> PreconditionError | None:
    """The error for a property or constraint that our writer does not implement; None without one."""
    name = snapshot.name
    for key, value in snapshot.configuration.items():
        if why := _blocking_reason(key, value):
            return PreconditionError(
                f"table {name} of the lake was given {key} = {value}, {why}",
                f"ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('{key}')",
            )
    if constraint := next(_column_constraints(snapshot), None):
        return PreconditionError(
            f"table {name} of the lake was given {constraint}, which cdc cannot check", "undo that"
        )
    return None


def _blocking_reason(key: str, value: str) -> str | None:
    values, why = _BLOCKING_VALUES.get(key, ((), ""))
    if str(value).lower() in values:
        return why
    return next((why for begin, why in _BLOCKING_PREFIXES.items() if key.startswith(begin)), None)


def _column_constraints(snapshot: Snapshot) -> Iterator[str]:
    for column in json.loads(snapshot.schema_string or "{}").get("fields", ()):
        if not column.get("nullable", True):
            yield f"NOT NULL on column {column['name']}"
        for key in _COLUMN_CONSTRAINTS:
            if key in column.get("metadata", ()):
                yield f"{key} on column {column['name']}"

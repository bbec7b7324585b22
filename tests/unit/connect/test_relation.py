"""Shapes of relations, as noted in the schema history."""

import pytest

from cdc.connect.source.relation import Persistence, RelationKind, ReplicaIdentity, parse_shape

SHAPE = (
    '{"kind": "%s", "persistence": "u", "identity": "f", "key": [], "key_immediate": false, "key_primary": false,'
    ' "columns": [], "types": []}'
)


@pytest.mark.parametrize(
    ("letter", "kind"),
    [("r", RelationKind.TABLE), ("p", RelationKind.PARTITIONED), ("v", RelationKind.OTHER), ("?", RelationKind.OTHER)],
)
def test_a_shape_has_postgres_s_letters_as_names(letter: str, kind: RelationKind) -> None:
    shape = parse_shape(SHAPE % letter)
    assert (shape.kind, shape.persistence, shape.identity) == (kind, Persistence.UNLOGGED, ReplicaIdentity.FULL)

"""Commits survive decoding and encoding; other writers' actions are tolerated, damage is not."""

import json
from hashlib import blake2b

import pytest

from cdc.sinks.lake.delta.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    Metadata,
    Protocol,
    Remove,
    Txn,
    commit_id,
    commit_time_ms,
    decode_commit,
    encode_commit,
    from_row,
    has_writer_id,
    paths_of,
    to_row,
)
from cdc.sinks.lake.delta.deletion_vectors import VectorDescriptor

VECTOR = VectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
COMMIT: list[Action] = [
    CommitInfo(7, "WRITE", {}, "cdc-toolkit", "an id"),
    Protocol(3, 7, ["deletionVectors"], ["deletionVectors", "changeDataFeed"]),
    Metadata("id", "{}", "public.things", None, {"provider": "parquet", "options": {}}, [], 1, {"a": "b"}),
    Add("a.parquet", 10, {}, 5, True, '{"numRecords":3}', VECTOR),
    Remove("a.parquet", 7, True, True, {}, 10),
    Cdc("_change_data/c.parquet", 3, {}),
    Txn("cdc/p/1", 12, 7),
]


def test_a_commit_survives_encoding() -> None:
    assert decode_commit(encode_commit(COMMIT)) == COMMIT
    assert (commit_id(COMMIT), commit_time_ms(COMMIT)) == ("an id", 7)


def test_checkpoint_rows_survive() -> None:
    for action in COMMIT:
        [(name, fields)] = to_row(action).items()
        assert from_row(name, fields) == action


def test_absent_fields_are_not_written() -> None:
    lines = [json.loads(line) for line in encode_commit([Remove("a", 1), Protocol(1, 2)]).splitlines()]
    assert lines == [
        {"remove": {"path": "a", "deletionTimestamp": 1, "dataChange": True}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    ]


def test_a_commit_without_an_id_is_identified_by_its_content() -> None:
    lines = [
        {"commitInfo": {"operation": "ODD", "timestamp": 3}},
        {"domainMetadata": {"domain": "d", "removed": False}},
        {"add": {"path": "a", "size": "1", "partitionValues": {"p": None}, "baseRowId": 4, "dataChange": False}},
    ]
    actions = decode_commit("".join(json.dumps(line) + "\n" for line in lines).encode())
    digest = blake2b(json.dumps(lines).encode(), digest_size=20).hexdigest()
    assert actions == [
        CommitInfo(3, "ODD", txn_id=digest),
        Add("a", 1, {"p": None}, data_change=False),
    ]
    assert commit_id(actions) == digest
    assert not has_writer_id(digest)


def test_file_actions_name_their_vectors_file() -> None:
    assert paths_of(Remove("a", deletion_vector=VECTOR)) == ["a", VECTOR.path]
    assert paths_of(Add("a", 1, deletion_vector=VectorDescriptor("i", "x", 1, 1))) == ["a"]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[1]\n", b'{"add": {"path": "a"', b'{"add": {"size": 1}}\n', b"\xff\n"]
)
def test_damaged_commits_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode_commit(content)

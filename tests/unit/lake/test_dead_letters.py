"""The dead letters stay small: files are compacted, and letters of former copies are dropped."""

from pathlib import Path

import pytest

from cdc.columns.netting.changes import RefusedMessage
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from cdc.sinks.lake.metadata.dead_letters import FOLDER, DeadLetter, DeadLetters
from tests.support.lake.places import in_folder

NAME = TableName("public", "things")
MANY = 20
"""Files that are compacted here; a user has more of them first."""


def letter(table_id: str, offset: int) -> DeadLetter:
    message = RefusedMessage(Refusal("topic", 0, offset, "it is no JSON", False), b"key", b"{", None, False, 1, 1)
    return DeadLetter(table_id, NAME, message, -1)


def test_letters_of_a_hot_key_are_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.sinks.lake.metadata.table.COMPACT_AT_FILES", MANY)
    lake = in_folder(tmp_path)
    letters = DeadLetters(lake)
    letters.maintain(0, list)
    letters.add([letter("former", 0)])
    for offset in range(1, MANY):
        letters.add([letter("now", offset)])
    letters.maintain(0, lambda: ["now"])
    assert len([*Path(lake.metadata_folder(FOLDER)).glob("*.parquet")]) == 1
    again = DeadLetters(lake)
    assert [letter.message.refusal.offset for letter in again.all()] == [*range(1, MANY)]
    assert again.blocked_keys("now") == {b"key": 1}
    assert not again.blocked_keys("former")
    letters.add([letter("now", MANY)])
    assert len(DeadLetters(lake).all()) == MANY

"""The dead letters stay small: files are compacted, and letters of former copies are dropped."""

from pathlib import Path

from cdc.columns.netting.changes import RefusedMessage
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from sinks.lake.metadata.dead_letters import FOLDER, DeadLetter, DeadLetters
from sinks.lake.metadata.table import COMPACT_AT_FILES
from tests.lake.places import in_folder

NAME = TableName("public", "things")


def letter(table_id: str, offset: int) -> DeadLetter:
    message = RefusedMessage(Refusal("topic", 0, offset, "it is no JSON", False), b"key", b"{", None, False, 1, 1)
    return DeadLetter(table_id, NAME, message, -1)


def test_letters_of_a_hot_key_are_compacted(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    letters = DeadLetters(lake)
    letters.maintain(0, list)
    letters.add([letter("former", 0)])
    for offset in range(1, COMPACT_AT_FILES):
        letters.add([letter("now", offset)])
    letters.maintain(0, lambda: ["now"])
    assert len([*Path(lake.metadata_folder(FOLDER)).glob("*.parquet")]) == 1
    again = DeadLetters(lake)
    assert [letter.message.refusal.offset for letter in again.all()] == [*range(1, COMPACT_AT_FILES)]
    assert again.blocked_keys("now") == {b"key": 1}
    assert not again.blocked_keys("former")
    letters.add([letter("now", COMPACT_AT_FILES)])
    assert len(DeadLetters(lake).all()) == COMPACT_AT_FILES

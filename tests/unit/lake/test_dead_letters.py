"""The dead letters stay small: files are compacted, letters of former copies dropped, and values read when asked."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cdc.columns.netting.changes import RefusedMessage
from cdc.core.errors import CdcError
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from cdc.sinks.lake.metadata.dead_letters import FOLDER, DeadLetter, DeadLetters
from tests.support.lake.places import in_folder

NAME = TableName("public", "things")
MANY = 20
"""Files that are compacted here; a user has more of them first."""


def letter(table_id: str, offset: int, value: bytes = b"{") -> DeadLetter:
    message = RefusedMessage(Refusal("topic", 0, offset, "it is no JSON", False), b"key", value, None, False, 1, 1)
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


def test_what_is_blocked_is_known_without_the_values(tmp_path: Path) -> None:
    """All of them would have to fit into memory, or nobody could start."""
    lake = in_folder(tmp_path)
    DeadLetters(lake).add([letter("now", 7, os.urandom(100_000))])
    [file] = Path(lake.metadata_folder(FOLDER)).glob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    [values] = [each for at in range(group.num_columns) if (each := group.column(at)).path_in_schema == "value"]
    with file.open("r+b") as opened:
        opened.seek(values.dictionary_page_offset or values.data_page_offset)
        opened.write(bytes(values.total_compressed_size))
    letters = DeadLetters(lake)
    assert letters.blocked_keys("now") == {b"key": 7}
    letters.add([letter("now", 7)])
    assert letters.count("now") == 1
    with pytest.raises(CdcError, match="damaged"):
        letters.all()

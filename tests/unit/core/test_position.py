"""Positions on disk: what is written is read."""

import json

from cdc.core.position import BEFORE_LOG, Bookmark, LogStart, Lsn, Position
from cdc.sinks.lake.layout import Lake
from cdc.sinks.opensearch import layout

POSITION = Position(7, Lsn(70), 507, {"topic": {0: 8}}, LogStart(3, 9, 2, Lsn(5)), "digest", "cut")


def test_a_position_is_read_as_it_was_written() -> None:
    written = json.loads(json.dumps(POSITION.as_json()))
    assert Position.from_json(written) == POSITION
    assert Position.from_json(written).cut == "cut"


def test_a_bookmark_is_read_as_it_was_written() -> None:
    written = Bookmark(Lsn(70), 4711, 2, {"topic": {0: 8, 11: 9}}, 33)
    read = Bookmark.from_json(json.loads(json.dumps(written.as_json())))
    # a copy is named by its LSN alone: the place in the log is no part of the comparison
    assert (read, read.topic_ends, read.order_end) == (written, written.topic_ends, 33)


def test_a_position_covers_those_up_to_its_end() -> None:
    earlier, same, later = (Position(end_offset, Lsn(1), 1) for end_offset in (6, 7, 8))
    assert [POSITION.covers(other) for other in (earlier, same, later)] == [True, True, False]


def test_ids_and_versions_on_disk_stay() -> None:
    assert Lake("lake", "shop").app_id == "cdc/shop/1"
    assert layout.version_at(Position(BEFORE_LOG, Lsn(1), 0)) == layout.COPY_VERSION == 1 << 48
    assert layout.version_at(Position(0, Lsn(1), 1)) == (1 << 48) + 1
    assert [layout.is_own_version(version) for version in (7, (1 << 48) - 1, (1 << 48) + 5, 2 << 48)] == [
        False,
        False,
        True,
        False,
    ]

"""The latest log on a real broker: what the contract's suite does not reach."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from cdc.columns.feed import FeedBatch, FeedRows
from cdc.core.errors import PreconditionError, RefusedError
from cdc.core.table import Column, Kind, Table, TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.clients.transactional_writer import TransactionalWriter, WriterFencedError
from cdc.log.names import latest_topic, positions_topic
from cdc.log.settings import LatestTopicSettings, LogSettings
from cdc.sinks.lake.feed.commit_changes import LazyParts
from cdc.sinks.latest import state
from cdc.sinks.latest.follower import LatestFollower
from tests.contract.every_value import check_every_value
from tests.contract.fed import changed, copy_of, keyed
from tests.contract.followers import OTHERS, bookmark
from tests.servers.latest.play import MARK, ROWS, at, loaded, one, records, row
from tests.support.histories import THINGS
from tests.support.model import Key, Row

Start = Callable[[], LatestFollower]


@pytest.fixture
def log(kafka_bootstrap: str) -> LogSettings:
    return LogSettings(bootstrap=kafka_bootstrap, prefix=f"l{uuid.uuid4().hex[:12]}")


@pytest.fixture
def start(spark: SparkSession, log: LogSettings) -> Iterator[Start]:
    """Makes followers of one pipeline, as one process after the other would."""
    started: list[LatestFollower] = []

    def begin() -> LatestFollower:
        started.append(LatestFollower(spark, log, log.prefix, "latest"))
        return started[-1]

    yield begin
    for follower in started:
        follower.close()


def test_every_value_comes_back_exactly(spark: SparkSession, start: Start) -> None:
    check_every_value(spark, start(), MARK)


def test_a_key_has_one_partition_whoever_writes_it(spark: SparkSession, start: Start, log: LogSettings) -> None:
    """The copy comes from Kafka's own client in the executors, batches from librdkafka."""
    follower = start()
    table = Table(TableName("public", "keys"), (Column("id", Kind.TEXT), Column("small", Kind.INTEGER)), ("id",))
    keys = ["", "ä", "🐘", *("x" * n for n in range(1, 60)), *(f"key {n}" for n in range(200))]
    rows: dict[Key, Row] = {(key,): {"id": key, "small": 1} for key in keys}
    follower.load(table, copy_of(spark, table, rows), MARK)
    follower.apply(one(table, {key: {**row, "small": 2} for key, row in rows.items()}), at(1))
    assert len(keyed(follower.rows(table), table)) == len(keys)
    places: dict[bytes | None, set[int]] = {}
    for record in records(log, latest_topic(log.prefix, table.name)):
        places.setdefault(record.key, set()).add(record.partition)
    assert len(places) == len(keys)
    assert {len(partitions) for partitions in places.values()} == {1}
    assert set.union(*places.values()) == {0, 1, 2}


def test_rows_and_position_are_seen_together_or_not_at_all(spark: SparkSession, start: Start, log: LogSettings) -> None:
    follower = loaded(spark, start(), THINGS, OTHERS)
    batch = FeedBatch({t.name: changed(t, {(1,): row(1, "new")}) for t in (THINGS, OTHERS)})
    before = records(log, latest_topic(log.prefix, THINGS.name))
    with patch.object(state, "position_record", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        follower.apply(batch, at(1))
    assert follower.position() is None
    assert records(log, latest_topic(log.prefix, THINGS.name)) == before
    assert [keyed(follower.rows(t), t) for t in (THINGS, OTHERS)] == [ROWS, ROWS]
    follower.apply(batch, at(1))
    follower.apply(batch, at(1))
    assert start().position() == at(1)
    assert [keyed(follower.rows(t), t)[1,]["big"] for t in (THINGS, OTHERS)] == ["new", "new"]


def test_a_killed_writer_holds_nobody_up(spark: SparkSession, start: Start, log: LogSettings) -> None:
    """Killed with rows sent and the transaction open: the next writer ends it, and nothing of it is ever seen."""
    follower = loaded(spark, start(), THINGS)
    with (
        patch.object(TransactionalWriter, "_commit", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        follower.apply(one(THINGS, {(1,): row(1, "lost"), (2,): None}), at(1))
    next_one = start()
    next_one.apply(one(THINGS, {(1,): row(1, "kept")}), at(1))
    assert keyed(next_one.rows(THINGS), THINGS) == {**ROWS, (1,): row(1, "kept")}
    assert b"lost" not in b"".join(r.value or b"" for r in records(log, latest_topic(log.prefix, THINGS.name)))


def test_a_replaced_follower_writes_no_more(spark: SparkSession, start: Start) -> None:
    first = loaded(spark, start(), THINGS)
    second = start()
    second.apply(one(THINGS, {(1,): row(1, "second")}), at(1))
    for _ in range(2):
        with pytest.raises(RefusedError, match="another `cdc follow` has taken over"):
            first.apply(one(THINGS, {(1,): row(1, "first")}), at(2))
    second.apply(one(THINGS, {(2,): row(2, "second")}), at(2))
    assert keyed(second.rows(THINGS), THINGS) == {**ROWS, (1,): row(1, "second"), (2,): row(2, "second")}


def test_a_writer_replaced_within_its_transaction_stays_replaced(kafka_bootstrap: str, log: LogSettings) -> None:
    with Admin(log) as admin:
        admin.create([Topic(f"{log.prefix}.t", 1)])
    first, replaced = TransactionalWriter(log, log.prefix), []

    def overtaken() -> None:
        with first.transaction():
            first.write(f"{log.prefix}.t", b"k", b"first")
            first._producer.flush(60)
            replaced.append(TransactionalWriter(log, log.prefix))
            first.write(f"{log.prefix}.t", b"k", b"first, late")

    with pytest.raises(WriterFencedError):
        overtaken()
    [second] = replaced
    with second.transaction():
        second.write(f"{log.prefix}.t", b"k", b"second")
    first.close()
    second.close()
    assert [record.value for record in records(log, f"{log.prefix}.t")] == [b"second"]


def test_asking_replaces_nobody(spark: SparkSession, start: Start) -> None:
    follower = loaded(spark, start(), THINGS)
    follower.apply(FeedBatch({}), at(1))
    asking = start()
    assert asking.position() == at(1)
    assert asking.bookmarks() == {THINGS.name: MARK}
    assert keyed(asking.rows(THINGS), THINGS) == ROWS
    follower.apply(one(THINGS, {(1,): None}), at(2))
    assert asking.position() == at(2)


def test_another_copy_leaves_no_stale_key(spark: SparkSession, start: Start, log: LogSettings) -> None:
    follower = loaded(spark, start(), THINGS)
    dying = patch("cdc.sinks.latest.follower.reach", side_effect=KeyboardInterrupt)
    with dying, pytest.raises(KeyboardInterrupt):
        follower.load(THINGS, copy_of(spark, THINGS, {(99,): row(99, "stale"), (1,): row(1, "stale")}), MARK)
    less: dict[Key, Row] = {(1,): row(1, "new"), (50,): row(50, "new")}
    follower.load(THINGS, copy_of(spark, THINGS, less), bookmark(7))
    assert keyed(follower.rows(THINGS), THINGS) == less
    assert start().bookmarks() == {THINGS.name: bookmark(7)}


def test_a_copy_that_died_has_no_bookmark(spark: SparkSession, start: Start) -> None:
    follower = loaded(spark, start(), THINGS)
    with patch("cdc.sinks.latest.write.write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    next_one = start()
    assert next_one.bookmarks() == {}
    next_one.apply(one(THINGS, {(1,): None}), at(1))
    assert "public.things has no copy" in reason(next_one)


def test_what_is_not_ours_is_refused(spark: SparkSession, start: Start, log: LogSettings) -> None:
    topic = latest_topic(log.prefix, THINGS.name)
    with Admin(log) as admin:
        admin.create([Topic(topic, log.partitions)])
    with TransactionalWriter(log, f"{log.prefix}-else") as writer, writer.transaction():
        writer.write(topic, b"k", b"v")
    told = f"public.things: topic {topic} is there already and is not this follower's"
    for follower in (start(), start()):
        follower.prepare([THINGS])
        assert told in reason(follower)
        # nor is it taken by a copy, also of one that knows that it has tried
        follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
        assert told in reason(follower)
    assert [record.value for record in records(log, topic)] == [b"v"]
    with Admin(log) as admin:
        admin.delete([topic])
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert (follower.bookmarks(), follower.stops()) == ({THINGS.name: MARK}, {})


def reason(follower: LatestFollower) -> str:
    """Why the one table that is stopped is that."""
    [stop] = follower.stops().values()
    return str(stop)


def test_another_follower_of_the_pipeline_is_not_ours(spark: SparkSession, start: Start, log: LogSettings) -> None:
    loaded(spark, start(), THINGS)
    with pytest.raises(PreconditionError, match="is another follower's"):
        LatestFollower(spark, log, log.prefix, "other").prepare([THINGS])


def test_another_partition_count_is_refused(spark: SparkSession, start: Start, log: LogSettings) -> None:
    loaded(spark, start(), THINGS)
    more = log.model_copy(update={"partitions": log.partitions + 1})
    follower = LatestFollower(spark, more, log.prefix, "latest")
    follower.prepare([THINGS])
    assert "has 3 partitions, not 4 → set log.partitions back" in reason(follower)
    follower.close()


def test_tables_that_share_a_topic_are_refused(start: Start) -> None:
    twins = [Table(name, THINGS.columns, THINGS.key) for name in (TableName("a", "b_c"), TableName("a_b", "c"))]
    with pytest.raises(PreconditionError, match=r"a\.b_c and a_b\.c would share the topic"):
        start().prepare(twins)


def test_a_table_without_a_key_is_refused(start: Start) -> None:
    follower = start()
    follower.prepare([Table(TableName("public", "t"), THINGS.columns, ())])
    assert "public.t has no primary key" in reason(follower)


def test_a_topic_that_is_gone_wants_a_new_copy(spark: SparkSession, start: Start, log: LogSettings) -> None:
    loaded(spark, start(), THINGS, OTHERS)
    with Admin(log) as admin:
        admin.delete([latest_topic(log.prefix, THINGS.name)])
    next_one = start()
    next_one.prepare([THINGS, OTHERS])
    assert next_one.bookmarks() == {OTHERS.name: MARK}


TOO_LARGE = "→ raise log.latest.max_record_bytes"


def test_too_large_a_row_stops_its_table_alone(spark: SparkSession, log: LogSettings) -> None:
    small = log.model_copy(update={"latest": LatestTopicSettings(max_record_bytes=2000)})
    follower = LatestFollower(spark, small, log.prefix, "latest")
    huge: dict[Key, Row] = {(1,): row(1, "x" * 3000)}
    follower.load(OTHERS, copy_of(spark, OTHERS, ROWS), MARK)
    follower.load(THINGS, copy_of(spark, THINGS, {**ROWS, **huge}), MARK)
    assert "larger than 2,000 bytes" in reason(follower)
    assert f"the largest is the one where id = 1 {TOO_LARGE}" in reason(follower)
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), MARK)
    assert follower.stops() == {}
    follower.apply(two(huge), at(1))
    assert re.search(f"public.things: .*a record is too large.*, where id = 1 {TOO_LARGE}", reason(follower))
    assert follower.position() == at(1)
    assert follower.bookmarks() == {OTHERS.name: MARK}
    assert keyed(follower.rows(OTHERS), OTHERS)[1,]["big"] == "new"
    follower.close()
    # who comes next knows it, and leaves the table out
    next_one = LatestFollower(spark, small, log.prefix, "latest")
    next_one.apply(two({(2,): row(2, "missed")}), at(2))
    assert "too large" in reason(next_one)
    next_one.load(THINGS, copy_of(spark, THINGS, ROWS), bookmark(7))
    assert next_one.bookmarks() == {OTHERS.name: MARK, THINGS.name: bookmark(7)}
    assert keyed(next_one.rows(THINGS), THINGS) == ROWS
    next_one.close()


def two(things: dict[Key, Row]) -> FeedBatch:
    """A batch of two tables: these rows of the one, a usual row of the other."""
    return FeedBatch({THINGS.name: changed(THINGS, dict(things)), OTHERS.name: changed(OTHERS, {(1,): row(1, "new")})})


def test_a_record_that_the_broker_refuses_stops_its_table_alone(
    spark: SparkSession, start: Start, log: LogSettings
) -> None:
    follower = loaded(spark, start(), THINGS, OTHERS)
    topic = Topic(latest_topic(log.prefix, THINGS.name), log.partitions, 1, {"max.message.bytes": "500"})
    with Admin(log) as admin:
        admin.configure([topic])
    follower.apply(two({(1,): row(1, "".join(uuid.uuid4().hex for _ in range(90)))}), at(1))
    assert re.search(f"public.things: .*a record is too large.*, where id = 1 {TOO_LARGE}", reason(follower))
    assert (follower.position(), follower.bookmarks()) == (at(1), {OTHERS.name: MARK})
    assert keyed(follower.rows(OTHERS), OTHERS)[1,]["big"] == "new"


def test_whatever_a_table_meets_stops_it_alone(spark: SparkSession, start: Start, log: LogSettings) -> None:
    follower = loaded(spark, start(), THINGS, OTHERS)

    def unreadable() -> Iterator[FeedRows]:
        yield from changed(THINGS, {(1,): row(1, "half of it")})
        raise ValueError("what nobody has thought of")

    fine = {OTHERS.name: changed(OTHERS, {(1,): row(1, "new")})}
    follower.apply(FeedBatch({**fine, THINGS.name: LazyParts(unreadable)}), at(1))
    assert "public.things: an error that cdc does not know" in reason(follower)
    assert "ValueError: what nobody has thought of → see the log" in reason(follower)
    assert (follower.position(), follower.bookmarks()) == (at(1), {OTHERS.name: MARK})
    assert keyed(follower.rows(OTHERS), OTHERS)[1,]["big"] == "new"
    assert keyed(follower.rows(THINGS), THINGS) == ROWS
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), bookmark(7))
    assert follower.stops() == {}


def test_a_topic_that_goes_while_it_is_written_is_missed(spark: SparkSession, start: Start, log: LogSettings) -> None:
    follower = loaded(spark, start(), THINGS, OTHERS)
    with Admin(log) as admin:
        admin.delete_wholly([latest_topic(log.prefix, THINGS.name)])
    follower.apply(two({(1,): row(1, "lost")}), at(1))
    assert "public.things has no copy in the topic" in reason(follower)
    assert keyed(follower.rows(OTHERS), OTHERS)[1,]["big"] == "new"
    follower.load(THINGS, copy_of(spark, THINGS, ROWS), bookmark(7))
    follower.apply(two({(1,): row(1, "again")}), at(2))
    assert (follower.stops(), follower.position()) == ({}, at(2))
    assert keyed(follower.rows(THINGS), THINGS)[1,]["big"] == "again"


def test_a_state_that_goes_under_its_writer_is_written_anew(
    spark: SparkSession, start: Start, log: LogSettings
) -> None:
    follower = loaded(spark, start(), THINGS, OTHERS)
    follower.apply(two({(1,): row(1, "kept")}), at(1))
    with Admin(log) as admin:
        admin.delete_wholly([positions_topic(log.prefix)])
    with pytest.raises(PreconditionError, match="no such topic"):
        follower.apply(two({(1,): row(1, "lost")}), at(2))
    # as `cdc follow` tries again
    follower.prepare([THINGS, OTHERS])
    assert (follower.bookmarks(), follower.position()) == ({THINGS.name: MARK, OTHERS.name: MARK}, at(1))
    follower.apply(two({(1,): row(1, "again")}), at(2))
    follower.close()
    other = start()
    assert (other.bookmarks(), other.stops(), other.position()) == (
        {THINGS.name: MARK, OTHERS.name: MARK},
        {},
        at(2),
    )
    assert keyed(other.rows(THINGS), THINGS)[1,]["big"] == "again"
    # one that was closed keeps nothing: another may write meanwhile
    other.apply(two({(1,): row(1, "new")}), at(3))
    other.close()
    with Admin(log) as admin:
        admin.delete_wholly([positions_topic(log.prefix)])
    other.prepare([THINGS, OTHERS])
    told = "is there already and is not this follower's"
    assert [told in stop.what for stop in other.stops().values()] == [True, True]


def test_a_writer_names_the_topic_that_is_gone(kafka_bootstrap: str, log: LogSettings) -> None:
    there, gone = f"{log.prefix}.there", f"{log.prefix}.gone"
    with Admin(log) as admin, TransactionalWriter(log, log.prefix) as writer:
        admin.create([Topic(there, 3), Topic(gone, 1)])

        def write() -> None:
            with writer.transaction():
                writer.write(there, b"k", b"v")
                writer.write(gone, b"k", b"v")

        write()
        admin.delete_wholly([gone])
        # what the broker says first is either this, or only that it attempted nothing
        with pytest.raises(PreconditionError, match="no such topic: "):
            write()


def test_a_writer_that_was_fenced_is_told_so_wherever_it_hears_of_it(kafka_bootstrap: str, log: LogSettings) -> None:
    with Admin(log) as admin:
        admin.create([Topic(f"{log.prefix}.t", 1)])

    def overtaken(writer: TransactionalWriter, after: Callable[[], None]) -> None:
        with writer.transaction():
            writer.write(f"{log.prefix}.t", b"k", b"v")
            with TransactionalWriter(log, log.prefix):
                after()
            # now the client has failed for good, and says of a record only that
            writer.write(f"{log.prefix}.t", b"k", b"late")

    def heard_by_a_flush() -> None:
        with suppress(SystemError, KafkaException):
            writer._producer.flush(10)

    writer = TransactionalWriter(log, log.prefix)
    with pytest.raises(WriterFencedError, match="has fenced the writer"):
        overtaken(writer, heard_by_a_flush)
    with pytest.raises(WriterFencedError):
        overtaken(writer, lambda: None)


def test_a_large_batch_is_one_transaction(spark: SparkSession, start: Start, log: LogSettings) -> None:
    follower = loaded(spark, start(), THINGS)
    many: dict[Key, Row | None] = {(n,): row(n, "x" * 500) for n in range(60_000)}
    with patch("cdc.log.clients.transactional_writer.BUFFER_BYTES", 2_000_000):
        follower.apply(one(THINGS, many), at(1))
    assert follower.rows(THINGS).count() == 60_000

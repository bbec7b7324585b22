"""Undecodable messages among real ones: their keys are blocked, everything else goes on."""

import json
from collections.abc import Iterable

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.log.names import change_topic
from cdc.run.dead_letters import drop, find_letter, list_blocked_keys, render_text, replay
from cdc.run.verify.verify import verify as run_verify
from cdc.sinks.lake.apply.replay import BATCH_PENDING
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, problems, verify
from tests.support.cdc_subprocess import LIMIT_SECONDS
from tests.support.parts.pipelines import MakePipeline, Pipeline

THINGS, OTHERS = TableName("public", "things"), TableName("public", "others")
ENVELOPE = {
    "op": "u",
    "before": None,
    "source": {"connector": "postgresql"},
    "transaction": {"data_collection_order": 1},
}
SOUND = {**ENVELOPE, "after": {"id": 1, "total": "1.00", "note": "planted"}}
PLANTED: tuple[tuple[str, bytes], ...] = (
    ("truncated", json.dumps(SOUND).encode()[:-2]),
    ("an unknown operation", json.dumps({**SOUND, "op": "x"}).encode()),
    ("a wrong type", json.dumps({"op": "u", "after": {"id": 3, "total": [], "note": None}}).encode()),
    ("null for a key", json.dumps({"op": "u", "after": {"id": None, "total": None, "note": None}}).encode()),
    ("another connector's", b'{"schema": {"type": "struct"}, "payload": {"op": "r", "after": {"ID": 5}}}'),
    ("invalid UTF-8", json.dumps(SOUND).encode().replace(b"planted", b"\xff\xfe\xc3(")),
    ("fuzzed", bytes(range(256))),
)


def plant(pipeline: Pipeline, table: TableName, messages: Iterable[tuple[bytes | None, bytes]]) -> None:
    log = pipeline.settings.log
    producer = KafkaProducer(bootstrap_servers=log.bootstrap, acks="all")
    for key, value in messages:
        producer.send(change_topic(log.prefix, table), key=key, value=value)
    producer.flush(60)
    producer.close()


def key_of(id: int) -> bytes:
    return json.dumps({"id": id}, separators=(",", ":")).encode()


def plant_letters(make_pipeline: MakePipeline, spark: SparkSession, *, lake_only: bool = True) -> Pipeline:
    pipeline = make_pipeline(
        "CREATE TABLE things (id int PRIMARY KEY, total numeric(10, 2), note text)",
        "ALTER TABLE things ALTER note SET STORAGE EXTERNAL",
        "INSERT INTO things SELECT n, n, 'note' FROM generate_series(1, 20) n",
        f"UPDATE things SET note = repeat(md5(id::text), 500) WHERE id = {len(PLANTED)}",
        "CREATE TABLE others (id int PRIMARY KEY)",
        tables=("public.things", "public.others"),
        lake_only=lake_only,
    )
    bootstrap(pipeline, spark)
    plant(pipeline, THINGS, [(key_of(n), value) for n, (_, value) in enumerate(PLANTED, 1)])
    return pipeline


def differing(pipeline: Pipeline, spark: SparkSession, *followers: str) -> list[int]:
    """How many keys differ in each of these followers, or in the lake."""
    names = followers or ("lake",)
    report = run_verify(pipeline.opened(spark), names, LIMIT_SECONDS, 10)
    compared = [report.followers[name][THINGS].comparison for name in names]
    return [each.missing + each.extra + each.differing for each in compared if each is not None]


def test_undecodable_message_blocks_its_key(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = plant_letters(make_pipeline, spark, lake_only=False)
    count = len(PLANTED)
    pipeline.run("UPDATE things SET total = total + 1", "INSERT INTO others VALUES (1)")
    told = catch_up_but_for(pipeline, spark, f"public.things: {count} keys held, {2 * count} messages not applied")
    assert told.endswith(" → `cdc dead-letters list`")
    assert differing(pipeline, spark, "lake", "latest") == [count, count]
    held = list_blocked_keys(pipeline.opened())
    assert {each.key for each in held} == {key_of(n) for n in range(1, count + 1)}
    assert [len(each.locations) for each in held] == [2] * count
    assert any("7 keys held" in line for line in problems(pipeline))
    # later changes wait behind them, also when everything starts anew, and a row that moves away from there
    pipeline.run("UPDATE things SET total = total + 1", "UPDATE things SET id = 101 WHERE id = 1")
    catch_up_but_for(pipeline, spark, "keys held")
    assert sum(len(each.locations) for each in list_blocked_keys(pipeline.opened())) == 3 * count + 2
    assert replay(pipeline.opened(), ()).applied == 0
    # of the last one, a value was not sent again
    done = drop(pipeline.opened(), [each.locations[0] for each in held])
    assert [(str(name), key) for name, key, _ in done.still_blocked] == [("public.things", key_of(count))]
    catch_up_but_for(pipeline, spark, "1 key held")
    assert differing(pipeline, spark) == [1]
    assert [each.key for each in list_blocked_keys(pipeline.opened())] == [key_of(count)]
    bootstrap(pipeline, spark, "public.things")
    pipeline.run("UPDATE things SET total = total + 1")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert list_blocked_keys(pipeline.opened()) == []


def check_shown_values_are_masked(pipeline: Pipeline) -> None:
    """Those of a key whose letters are a planted message, and one of ours with a secret."""
    first = next(each for each in list_blocked_keys(pipeline.opened()) if each.key == key_of(1))
    for place in first.locations:
        value = find_letter(pipeline.opened(), place).message.value
        masked, whole = render_text(value, values=False), render_text(value, values=True)
        assert not any(secret in str(masked) for secret in ("secret", "planted"))
        assert any(secret in str(whole) for secret in ("secret", "planted"))
    assert first.as_json(values=False)["key"] == '{"id":"…"}'


def test_message_without_a_key_stops_its_table_and_shown_values_are_masked(
    make_pipeline: MakePipeline, spark: SparkSession
) -> None:
    pipeline = plant_letters(make_pipeline, spark)
    plant(pipeline, OTHERS, [(None, b"{}")] * 6)
    pipeline.run("INSERT INTO others SELECT generate_series(1, 50)", "UPDATE things SET total = 0 WHERE id > 10")
    catch_up_but_for(pipeline, spark, r"public\.others is followed no further than .* cannot be read")
    assert differing(pipeline, spark) == [0]
    bootstrap(pipeline, spark, "public.others")
    catch_up_but_for(pipeline, spark, r"^public\.things: 7 keys held")
    assert verify(pipeline, spark).is_equal
    pipeline.run("UPDATE things SET note = 'a secret'")
    catch_up_but_for(pipeline, spark, "keys held")
    check_shown_values_are_masked(pipeline)


def test_on_refusal_stop_ends_follow(make_pipeline: MakePipeline, spark: SparkSession) -> None:
    pipeline = plant_letters(make_pipeline, spark)
    pipeline.configure("on_refusal: hold", "on_refusal: stop")
    pipeline.run("UPDATE things SET total = total + 1")
    with pytest.raises(PreconditionError, match=r"public\.things: 7 messages cannot be read, .*nothing of the batch"):
        catch_up(pipeline, spark)
    # kept they are, but what waits behind them would come before all that the batch brings
    early = drop(pipeline.opened(), [each.locations[0] for each in list_blocked_keys(pipeline.opened())])
    assert early.applied == 0
    assert {why for _, _, why in early.still_blocked} == {BATCH_PENDING}
    assert len(early.still_blocked) == len(PLANTED)
    # asked to hold them instead, it goes on where it stood
    pipeline.configure("on_refusal: stop", "on_refusal: hold")
    catch_up_but_for(pipeline, spark, "keys held")
    assert differing(pipeline, spark) == [len(PLANTED)]

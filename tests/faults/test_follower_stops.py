"""Tables that one follower cannot take stop in it alone, are reported, and go on once the cause is repaired.

Each test carries out the remedy of the line, and ends equal.
"""

from collections.abc import Iterator, Mapping

import httpx
import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.errors import IncompleteError, PreconditionError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.names import latest_topic
from cdc.run.verify.report import Report
from cdc.sinks.search.settings import SearchSettings
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend_bootstrapped, problems, status_of, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.waiting import until

THINGS = TableName("public", "things")
MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, note text)",
    "CREATE TABLE others (id int PRIMARY KEY, note text)",
    "INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(1, 5) n",
    "INSERT INTO others SELECT n, 'other ' || n FROM generate_series(1, 5) n",
)
TABLES = ("public.things", "public.others")
DOTTED = "public.things: column note.x would be a part of column note in OpenSearch"
REMEDY = "rename the column, or name the table under leave_out of this follower"


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    """Two tables that all follow; each test ends with both followed by all again."""
    yield from lend_bootstrapped(left, spark, lambda: make_shared_pipeline(*MADE, tables=TABLES))


def exit_code(pipeline: Pipeline) -> int:
    return status_of(pipeline).exit_code


def verdicts(report: Report) -> Mapping[str, Mapping[str, str]]:
    return {
        name: {str(table): verdict.as_json()["verdict"] for table, verdict in tables.items()}
        for name, tables in report.followers.items()
    }


EQUAL = {"public.things": "equal", "public.others": "equal"}


def test_unindexable_table_is_refused_before_anything_is_made(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> None:
    pipeline = make_shared_pipeline(*MADE, 'ALTER TABLE things ADD COLUMN "note.x" text', tables=TABLES)
    with pytest.raises(TablesRefusedError, match=f"^{DOTTED}, to which dots are paths → {REMEDY}$"):
        bootstrap(pipeline, spark)
    assert pipeline.connection.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    pipeline.run('ALTER TABLE things RENAME "note.x" TO "notes.x"')
    bootstrap(pipeline, spark)
    pipeline.run("""UPDATE things SET "notes.x" = 'held' WHERE id = 1""")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    left.append(pipeline)


def test_unsupported_column_stops_its_table_in_one_follower(pipeline: Pipeline, spark: SparkSession) -> None:
    with following(pipeline, spark) as running:
        pipeline.run(
            'ALTER TABLE things ADD COLUMN "note.x" text',
            """UPDATE things SET "note.x" = 'new' WHERE id = 1""",
            "INSERT INTO others VALUES (6, 'beside')",
        )
        running.wait_for(f"search: {DOTTED}, to which dots are paths; its other tables go on → {REMEDY}")
        pipeline.run("UPDATE things SET note = 'missed'", "DELETE FROM others WHERE id = 1")
        found = verdicts(verify(pipeline, spark))
        assert found == {"lake": EQUAL, "latest": EQUAL, "search": {**EQUAL, "public.things": "stopped"}}
        assert [line.partition(",")[0] for line in problems(pipeline)] == [f"search: {DOTTED}"]
        assert exit_code(pipeline) == PreconditionError.exit_code
        # the first remedy: the table is copied again as it is then
        pipeline.run('ALTER TABLE things RENAME "note.x" TO extra')
        running.wait_for("search: public.things goes on, copied again from the lake")
        pipeline.run("INSERT INTO things (id, note, extra) VALUES (7, 'behind', 'it')")
        assert verify(pipeline, spark).is_equal
        assert problems(pipeline) == []


def search_of(pipeline: Pipeline) -> tuple[str, str]:
    """The cluster's address, and what searches call the index of others."""
    [settings] = [f for f in pipeline.settings.followers.values() if isinstance(f, SearchSettings)]
    return settings.url, f"{pipeline.settings.pipeline.name}-public-others"


def call_index(method: str, url: str, json: object = None) -> Mapping[str, object]:
    found: Mapping[str, object] = httpx.request(method, url, json=json).raise_for_status().json()
    return found


def test_follow_waits_for_blocked_index(pipeline: Pipeline, spark: SparkSession) -> None:
    url, index = search_of(pipeline)
    named = f"{index}.copy1"
    undone = {
        "index.blocks.write": f"{named} is blocked: index write (api) → lift the block: PUT /{named}/_settings",
        "index.blocks.read_only_allow_delete": f"{named} is read-only, since a disk is nearly full",
    }
    with following(pipeline, spark) as running:
        for block, told in undone.items():
            call_index("PUT", f"{url}/{index}/_settings", json={block: True})
            pipeline.run("UPDATE others SET note = note || '.'")
            running.wait_for(told)
            assert any(line.startswith("follower search does not go on: ") for line in problems(pipeline))
            assert exit_code(pipeline) == PreconditionError.exit_code
            call_index("PUT", f"{url}/{index}/_settings", json={block: None})
            running.wait_for("search: goes on")
    assert problems(pipeline) == []


def test_closed_deleted_or_unaliased_index(pipeline: Pipeline, spark: SparkSession) -> None:
    url, index = search_of(pipeline)
    named = f"{index}.copy1"
    with following(pipeline, spark) as running:
        call_index("POST", f"{url}/{index}/_close")
        pipeline.run("UPDATE others SET note = note || '.'")
        running.wait_for(f"{named} is closed → open it: POST /{named}/_open")
        call_index("POST", f"{url}/{named}/_open")
        running.wait_for("search: goes on")
        assert problems(pipeline) == []
        # nothing has to change for it to be missed
        call_index("DELETE", f"{url}/{named}")
        running.wait_for("search: public.others is gone, and copied again from the lake")
        until(lambda: count_documents(url, index) == 5, "it is filled")
        # a batch may be the first to miss it
        again = next(iter(call_index("GET", f"{url}/{index}")))
        unnamed = {"actions": [{"remove": {"index": again, "alias": index}}]}
        call_index("POST", f"{url}/_aliases", json=unnamed)
        pipeline.run("INSERT INTO others VALUES (9, 'last')", "DELETE FROM others WHERE id = 5")
        until(lambda: count_documents(url, index) == 5, "it is filled")
        assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []


def count_documents(url: str, index: str) -> int | None:
    """How many documents a search finds."""
    answer = httpx.get(f"{url}/{index}/_count")
    return int(answer.json()["count"]) if answer.is_success else None


def test_topic_that_rejects_messages_stops_its_table(pipeline: Pipeline, spark: SparkSession) -> None:
    log = pipeline.settings.log
    topic = latest_topic(log.prefix, THINGS)
    with following(pipeline, spark) as running:
        set_max_message_bytes(pipeline, topic, 500)
        large = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 90) n"
        pipeline.run(f"UPDATE things SET note = ({large}) WHERE id = 3", "DELETE FROM others WHERE id = 2")
        running.wait_for("latest: public.things: ")
        assert "a record is too large" in running.said[-1]
        assert (
            ", where id = 3; its other tables go on → raise log.latest.max_record_bytes, and max.message.bytes"
            in (running.said[-1])
        )
        found = verdicts(verify(pipeline, spark))
        assert found == {"lake": EQUAL, "search": EQUAL, "latest": {**EQUAL, "public.things": "stopped"}}
        assert exit_code(pipeline) == PreconditionError.exit_code
        set_max_message_bytes(pipeline, topic, log.latest.max_record_bytes)
        running.wait_for("latest: public.things goes on, copied again from the lake")
        assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []


def set_max_message_bytes(pipeline: Pipeline, topic: str, most: int) -> None:
    with Admin(pipeline.settings.log) as admin:
        admin.configure([Topic(topic, pipeline.settings.log.partitions, 1, {"max.message.bytes": str(most)})])


def test_stop_survives_restarts_until_the_table_is_left_out(pipeline: Pipeline, spark: SparkSession) -> None:
    """The last test, since it leaves the table out."""
    pipeline.run('ALTER TABLE things ADD COLUMN "note.x" text', "DELETE FROM things WHERE id = 1")
    for statement in ("UPDATE others SET note = 'one'", "UPDATE others SET note = 'two'"):
        pipeline.run(statement)
        with pytest.raises(IncompleteError, match=f"^search: {DOTTED}.* → {REMEDY}$"):
            catch_up(pipeline, spark)
    with pytest.raises(TablesRefusedError, match=f"^search: {DOTTED}"):
        bootstrap(pipeline, spark)
    assert not verify(pipeline, spark).is_equal
    # the second remedy
    pipeline.configure("    kind: search\n", "    kind: search\n    leave_out: [public.things]\n")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert problems(pipeline) == []
    assert not bootstrap(pipeline, spark).has_changed

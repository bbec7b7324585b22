"""What must not leave the source: masked columns and filtered rows, in every place where data goes."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.connect.source.catalog import TablesRefusedError
from cdc.core.errors import PreconditionError
from cdc.core.table import TableName
from cdc.run.plan.plan import plan_bootstrap
from tests.support.cdc_inprocess import bootstrap, catch_up, following, lend, problems, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

SECRET = f"secret-{secrets.token_hex(12)}"
MADE = (
    "CREATE TABLE people (id int PRIMARY KEY, email text, card varchar(40), born date, phone text, notes text NOT NULL,"
    " token text, code bigint, label text, amount numeric)",
    "ALTER TABLE people ALTER email SET STORAGE EXTERNAL",
    "CREATE TABLE keyed (owner text PRIMARY KEY, amount int)",
    "CREATE TABLE whole (id int PRIMARY KEY, token text, state text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TABLE kinds (id uuid PRIMARY KEY, b timestamptz, c interval, d inet, e int[], f jsonb, g smallint,"
    " h char(5), i timestamp, j oid, k mood, l text[], m point, n numeric[])",
    "CREATE TABLE parted (id int, region text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE parted_eu PARTITION OF parted FOR VALUES IN ('eu', 'uk')",
    "CREATE TABLE parted_us PARTITION OF parted FOR VALUES IN ('us')",
)
TABLES = ("public.kinds", "public.people", "public.keyed", "public.whole", "public.parted")
MASKS = """  mask_secret: ${env:CDC_TEST_SECRET}
  mask:
    public.people: {email: hash, card: last4, born: hash, phone: "word:withheld", notes: null, token: drop, code: hash}
    public.keyed: {owner: hash}
    public.whole: {token: drop}
    public.kinds: {id: hash, b: hash, c: hash, d: hash, e: hash, f: hash, g: hash, h: hash, i: hash, j: hash, k: hash,
      l: hash, m: null, n: hash}
  where:
    public.whole: state <> 'draft'
    public.parted: region IN ('eu', 'us') AND id < 900
"""
KINDS = (
    "timestamptz '2024-02-29 12:00:00.5+05:30' + n * interval '1 month', n * interval '1 mon -3 days 00:00:00.25',"
    " inet '10.0.0.1/8' + n, ARRAY[n, NULL, -n], jsonb_build_object('a', n, 'b', NULL), -n, left('ab' || n, 5),"
    " CASE n % 2 WHEN 0 THEN 'infinity' ELSE timestamp '0044-03-15 BC' + n * interval '1 day' END, n,"
    " CASE n % 2 WHEN 0 THEN 'sad' ELSE 'glad' END::mood, ARRAY['x,' || n, NULL, '\"'], point(n, 1),"
    " ARRAY[n / 3.0, 'NaN']"
)


def masked(make: MakePipeline) -> Pipeline:
    pipeline = make(*MADE, tables=TABLES, lake_only=True)
    pipeline.environ["CDC_TEST_SECRET"] = SECRET
    pipeline.configure("  on_schema_change:", f"{MASKS}  on_schema_change:")
    return pipeline


def hashed(value: object) -> str:
    return hmac.digest(SECRET.encode(), str(value).encode(), hashlib.sha256).hex()


def read_lake(pipeline: Pipeline, spark: SparkSession, table: str) -> dict[Any, dict[str, Any]]:
    """The rows of the lake, by the first column of their key."""
    frame = spark.read.format("delta").load(pipeline.opened().lake.folder(TableName("public", table)))
    key = "owner" if table == "keyed" else "id"
    return {row[key]: row.asDict() for row in frame.collect()}


def insert(pipeline: Pipeline, first: int) -> None:
    pipeline.run(
        f"INSERT INTO people SELECT n, 'mail' || n, '4111-2222-' || n, date '1980-01-01' + n, '+49 ' || n,"
        f" 'note ' || n, 'token' || n, 9000000 + n, 'label ' || n, n FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO kinds SELECT md5(n::text)::uuid, {KINDS} FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO keyed SELECT 'owner' || n, n FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO whole SELECT n, 'token' || n, CASE n % 2 WHEN 0 THEN 'draft' ELSE 'sent' END"
        f" FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO parted SELECT n, r, 'note' FROM generate_series({first}, {first + 4}) n,"
        " unnest(ARRAY['eu', 'uk', 'us']) r",
    )


@pytest.fixture
def pipeline(left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None) -> Iterator[Pipeline]:
    def make() -> Pipeline:
        made = masked(make_shared_pipeline)
        insert(made, 1)
        return made

    yield from lend(left, make)


REFUSED = {
    "now() IS NULL OR state <> 'draft'": "the source does not take source.where: invalid publication WHERE expression",
    "state": "the source does not take source.where: argument of CHECK must be type boolean",
    "stat <> 'draft'": "source.where reads stat, which it does not have",
}


def test_a_filter_that_the_source_does_not_take_is_refused_before_anything_is_made(
    pipeline: Pipeline, spark: SparkSession
) -> None:
    last = "state <> 'draft'"
    for condition, why in REFUSED.items():
        pipeline.configure(f"public.whole: {last}", f"public.whole: {condition}")
        last = condition
        with pytest.raises(TablesRefusedError, match=re.escape(f"public.whole: {why}")):
            bootstrap(pipeline, spark)
    pipeline.run("ALTER TABLE whole REPLICA IDENTITY DEFAULT")
    pipeline.configure(f"public.whole: {last}", "public.whole: state <> 'draft'")
    with pytest.raises(TablesRefusedError, match="which is not in the log with a deleted row → ALTER TABLE"):
        bootstrap(pipeline, spark)
    assert not pipeline.connection.execute("SELECT FROM pg_publication").fetchall()
    pipeline.run("ALTER TABLE whole REPLICA IDENTITY FULL")


def test_copy_and_log_make_the_same_values(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    with following(pipeline, spark):
        insert(pipeline, 101)
        pipeline.run(
            "UPDATE people SET email = repeat('long ', 2000), card = '123' WHERE id IN (1, 101)",
            "UPDATE people SET label = 'again' WHERE id IN (1, 101, 2, 102)",
            "UPDATE people SET email = NULL, born = 'infinity', phone = NULL, code = NULL WHERE id IN (3, 103)",
            "DELETE FROM people WHERE id IN (4, 104)",
            "UPDATE kinds SET id = md5(g::text || 'again')::uuid, e = ARRAY[[1, 2], [3, 4]] WHERE g % 100 = -1",
            "UPDATE kinds SET b = NULL, l = NULL WHERE g % 100 = -2",
            "DELETE FROM kinds WHERE g % 100 = -3",
            "UPDATE keyed SET owner = 'moved' || amount WHERE amount % 100 = 1",
            "DELETE FROM keyed WHERE amount % 100 = 2",
            # into the filter, out of it, and within it
            "UPDATE whole SET state = 'sent' WHERE id % 100 = 2",
            "UPDATE whole SET state = 'draft' WHERE id % 100 = 3",
            "UPDATE whole SET token = 'other' WHERE id % 100 = 1",
            "DELETE FROM whole WHERE id % 100 IN (4, 5)",
            "UPDATE parted SET region = 'uk', id = id + 50 WHERE region = 'eu' AND id % 100 = 1",
            # to another partition
            "UPDATE parted SET region = 'us', id = id + 50 WHERE region = 'uk' AND id % 100 = 2",
            "UPDATE parted SET id = id + 900 WHERE id % 100 = 3",
        )
        assert verify(pipeline, spark).is_equal
    people = read_lake(pipeline, spark, "people")
    for n in (2, 102):
        assert people[n] == {
            "id": n,
            "email": hashed(f"mail{n}"),
            "card": f"****{f'4111-2222-{n}'[-4:]}",
            "born": hashed(f"1980-{'01-03' if n == 2 else '04-12'}"),
            "phone": "withheld",
            "notes": None,
            "code": hashed(9000000 + n),
            "label": "again",
            "amount": str(n),
        }
        assert people[n - 1]["email"] == hashed("long " * 2000)
        assert people[n - 1]["card"] == "****"
        assert people[n + 1] | {"card": ""} == {
            **people[n + 1],
            **{"email": None, "born": hashed("infinity"), "phone": None, "code": None, "card": ""},
        }
        assert n + 2 not in people
    owners = read_lake(pipeline, spark, "keyed")
    assert {hashed("moved1"), hashed("moved101"), hashed("owner3")} <= owners.keys()
    assert not {hashed("owner1"), hashed("owner2")} & owners.keys()
    assert sorted(read_lake(pipeline, spark, "whole")) == [1, 2, 101, 102]
    rows = spark.read.format("delta").load(pipeline.opened().lake.folder(TableName("public", "parted"))).collect()
    assert len(rows) == 2 * 10 - 2 + 2 - 4
    assert {row.region for row in rows} == {"eu", "us"}
    assert not bootstrap(pipeline, spark).has_changed


def test_masks_change_with_a_copy_and_only_by_the_file(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    name = pipeline.settings.source.publication
    another_secret_is_refused(pipeline, spark)
    pipeline.configure("token: drop, code: hash}", "token: hash, code: drop, label: last4}")
    pipeline.configure("    public.whole: state <> 'draft'\n", "")
    planned = plan_bootstrap(pipeline.opened())
    steps = "\n".join(map(str, [*planned.steps, *planned.notices]))
    for said in (
        "source.mask has changed: code as drop, token as hash, label as last4",
        "what was written before stays",
    ):
        assert said in steps
    assert "other rows or columns of public.people, public.whole" in steps
    assert {str(table) for table in bootstrap(pipeline, spark).copied} == {"public.people", "public.whole"}
    assert verify_now(pipeline, spark, 201)
    one = read_lake(pipeline, spark, "people")[1]
    assert (one["token"], one["label"]) == (hashed("token1"), "****")
    assert "code" not in one
    assert {"draft", "sent"} == {row["state"] for row in read_lake(pipeline, spark, "whole").values()}
    # somebody lets the publication send more than the file says
    pipeline.run(f'ALTER PUBLICATION "{name}" DROP TABLE people', f'ALTER PUBLICATION "{name}" ADD TABLE people')
    (told,) = [line for line in problems(pipeline) if "source.mask" in line]
    assert "sends other rows or columns than source.where and source.mask: public.people → ALTER PUBLICATION" in told
    pipeline.run(*told.partition("→ ")[2].split("; "))
    renamed_column_is_refused(pipeline, spark)


def verify_now(pipeline: Pipeline, spark: SparkSession, first: int) -> bool:
    with following(pipeline, spark):
        insert(pipeline, first)
        return verify(pipeline, spark).is_equal


def another_secret_is_refused(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.environ["CDC_TEST_SECRET"] = "another" * 4
    for verb in (bootstrap, catch_up):
        with pytest.raises(PreconditionError, match=r"was hashed with another source\.mask_secret"):
            verb(pipeline, spark)
    pipeline.environ["CDC_TEST_SECRET"] = SECRET


def renamed_column_is_refused(pipeline: Pipeline, spark: SparkSession) -> None:
    """Its values leave by no other name, also where a new column has the old one."""
    with following(pipeline, spark) as running:
        pipeline.run(
            "ALTER TABLE people RENAME email TO mail",
            "ALTER TABLE people ADD COLUMN email text",
            "UPDATE people SET mail = 'plain' || mail WHERE id = 5",
        )
        running.wait_for("column mail was email, which is masked, and has no mask → name mail in source.mask, too")
    pipeline.configure("{email: hash,", "{email: hash, mail: hash,")
    bootstrap(pipeline, spark)
    assert verify_now(pipeline, spark, 301)
    assert read_lake(pipeline, spark, "people")[5]["mail"] == hashed("plainmail5")

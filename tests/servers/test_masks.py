"""What must not leave the source: masked columns and filtered rows, in every place where data goes."""

import hashlib
import hmac
import secrets
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc.core.table import TableName
from tests.support.cdc_inprocess import bootstrap, following, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

SECRET = f"secret-{secrets.token_hex(12)}"
MADE = (
    "CREATE TABLE people (id int PRIMARY KEY, email text, card varchar(40), born date, phone text, notes text NOT NULL,"
    " token text, code bigint, label text, amount numeric)",
    "ALTER TABLE people ALTER email SET STORAGE EXTERNAL",
    "CREATE TABLE keyed (owner text PRIMARY KEY, amount int)",
    "CREATE TABLE whole (id int PRIMARY KEY, token text, state text)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE parted (id int, region text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE parted_eu PARTITION OF parted FOR VALUES IN ('eu', 'uk')",
    "CREATE TABLE parted_us PARTITION OF parted FOR VALUES IN ('us')",
)
TABLES = ("public.people", "public.keyed", "public.whole", "public.parted")
MASKS = """  mask_secret: ${env:CDC_TEST_SECRET}
  mask:
    public.people: {email: hash, card: last4, born: hash, phone: "word:withheld", notes: null, token: drop, code: hash}
    public.keyed: {owner: hash}
    public.whole: {token: drop}
  where:
    public.whole: state <> 'draft'
    public.parted: region IN ('eu', 'us') AND id < 900
"""


def masked(make: MakePipeline, *statements: str, lake_only: bool = False) -> Pipeline:
    pipeline = make(*MADE, *statements, tables=TABLES, lake_only=lake_only)
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
        f"INSERT INTO keyed SELECT 'owner' || n, n FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO whole SELECT n, 'token' || n, CASE n % 2 WHEN 0 THEN 'draft' ELSE 'sent' END"
        f" FROM generate_series({first}, {first + 4}) n",
        f"INSERT INTO parted SELECT n, r, 'note' FROM generate_series({first}, {first + 4}) n,"
        " unnest(ARRAY['eu', 'uk', 'us']) r",
    )


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Pipeline:
    made = masked(make_pipeline, lake_only=True)
    insert(made, 1)
    return made


def test_copy_and_log_make_the_same_values(pipeline: Pipeline, spark: SparkSession) -> None:
    bootstrap(pipeline, spark)
    with following(pipeline, spark):
        insert(pipeline, 101)
        pipeline.run(
            "UPDATE people SET email = repeat('long ', 2000), card = '123' WHERE id IN (1, 101)",
            "UPDATE people SET label = 'again' WHERE id IN (1, 101, 2, 102)",
            "UPDATE people SET email = NULL, born = 'infinity', phone = NULL, code = NULL WHERE id IN (3, 103)",
            "DELETE FROM people WHERE id IN (4, 104)",
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

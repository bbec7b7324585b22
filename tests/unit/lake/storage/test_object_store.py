"""A store's response does not always match the outcome; missing abilities are reported in one line."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from cdc.core.errors import CdcError, PreconditionError, UnreachableError
from cdc.sinks.lake.settings import SCHEME, S3Settings
from cdc.sinks.lake.storage import clients, s3_client
from cdc.sinks.lake.storage.base import open_storage
from cdc.sinks.lake.storage.object_store import ObjectStore
from tests.support.histories import THINGS
from tests.support.lake.disturbance import Disturbance, run_disturbance
from tests.support.lake.places import PlacedLake, on_server
from tests.support.lake.tables import apply, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.parts.object_store_fixture import KEY, SECRET, S3Server, access_at, reach, started

if TYPE_CHECKING:
    from obstore.store import BackoffConfig

NOBODY = "http://127.0.0.1:9"
SOON: "BackoffConfig" = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is tried again as often as a user's, and sooner: nobody here is busy."""
    monkeypatch.setitem(clients.RETRIES, "backoff", SOON)


@pytest.fixture
def way(s3_server: S3Server) -> Iterator[tuple[str, Disturbance]]:
    with run_disturbance(s3_server.endpoint) as disturbed:
        yield disturbed


@pytest.fixture
def disturbance(way: tuple[str, Disturbance]) -> Disturbance:
    """The disturbance on the way to the store."""
    return way[1]


@pytest.fixture
def store(s3_server: S3Server, way: tuple[str, Disturbance]) -> ObjectStore:
    """The store, behind the server that spoils responses."""
    return ObjectStore(s3_server.bucket(), "t", access_at(way[0]))


@pytest.fixture
def beside(s3_server: S3Server, store: ObjectStore) -> ObjectStore:
    """The same store as another writer reaches it."""
    return ObjectStore(store.bucket, store.prefix, s3_server.access)


ANSWERS = [
    pytest.param(500, True, id="landed and answered 500"),
    pytest.param(503, True, id="landed and answered 503"),
    pytest.param(None, True, id="landed and hung up"),
    pytest.param(409, False, id="409: try again"),
    pytest.param(500, False, id="not landed and answered 500"),
    pytest.param(None, False, id="not landed and hung up"),
]


@pytest.mark.parametrize("times", [1, 2, clients.RETRIES["max_retries"] + 1])
@pytest.mark.parametrize(("answer", "landing"), ANSWERS)
def test_a_put_with_a_spoiled_answer_is_recognized_as_ours(
    store: ObjectStore, disturbance: Disturbance, answer: int | None, landing: bool, times: int
) -> None:
    disturbance.times, disturbance.answer, disturbance.landing = times, answer, landing
    assert store.put_if_absent("0.json", b"mine")
    assert disturbance.times == 0
    assert store.read("0.json") == b"mine"


@pytest.mark.parametrize(("answer", "landing"), ANSWERS)
def test_another_writers_object_is_never_taken_for_ours(
    store: ObjectStore, beside: ObjectStore, disturbance: Disturbance, answer: int | None, landing: bool
) -> None:
    """The other writer wins before the disturbed request."""
    disturbance.times, disturbance.answer, disturbance.landing = 1, answer, landing
    disturbance.instead = lambda: beside.put_if_absent("0.json", b"theirs")
    assert not store.put_if_absent("0.json", b"mine")
    assert store.read("0.json") == b"theirs"


def test_a_put_that_lands_after_the_timeout_is_recognized(
    s3_server: S3Server, way: tuple[str, Disturbance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client times out and reads back while its own request still waits before the store."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1)
    impatient = ObjectStore(s3_server.bucket(), "late", access_at(way[0]))
    disturbance = way[1]
    seen = ObjectStore(impatient.bucket, impatient.prefix, s3_server.access)
    disturbance.times, disturbance.landing = 1, True
    disturbance.instead = lambda: _until_asked(disturbance)
    assert impatient.put_if_absent("0.json", b"mine")
    assert seen.read("0.json") == b"mine"


def _until_asked(disturbance: Disturbance) -> None:
    disturbance.asked.wait(60)


def test_a_commit_with_a_lost_answer_is_there_once(
    s3_server: S3Server, way: tuple[str, Disturbance], tmp_path: Path
) -> None:
    direct = on_server(s3_server, tmp_path)
    copy_rows(direct, THINGS, [row(n, "old") for n in range(10)])
    lake = PlacedLake(direct.path, "p", access_at(way[0]), files=direct.files, indexes=tmp_path)
    writer = open_writer(lake)
    version = writer.snapshot.version
    for rank in range(1, 6):
        way[1].times, way[1].of, way[1].answer = 1, "_delta_log", None if rank % 2 else 500
        apply(writer, update(rank, row(rank, "new")), rank)
        assert way[1].times == 0
    assert writer.snapshot.version == version + 5
    assert {key for key, values in read_by_delta_rs(direct).items() if values["big"] == "new"} == set(range(1, 6))


def test_equal_commits_have_different_bytes(s3_server: S3Server, tmp_path: Path) -> None:
    lake = on_server(s3_server, tmp_path)
    copy_rows(lake, THINGS, [row(1, "old")])
    mine, theirs = open_writer(lake), open_writer(lake, index="theirs")
    for rank in (1, 2):
        for writer in (mine, theirs):
            writer.refresh()
            apply(writer, update(rank, row(1, "same")), rank)
    ids = [json.loads(path.read_text().splitlines()[0])["commitInfo"]["txnId"] for path in _commits(lake)]
    assert len(set(ids)) == len(ids) == 5


def _commits(lake: PlacedLake) -> list[Path]:
    return sorted((lake.disk(THINGS.name) / "_delta_log").glob("*.json"))


@pytest.mark.servers
def test_a_store_that_overwrites_is_refused(tmp_path: Path) -> None:
    with started(tmp_path, authorization="none") as server, run_disturbance(server.endpoint) as (endpoint, disturbance):
        store = ObjectStore(server.bucket(), "t", access_at(endpoint))
        disturbance.dropped = {"if-none-match"}
        with pytest.raises(PreconditionError, match=r"overwrites what it is told to leave .* → use one with cond"):
            store.make_root()
        disturbance.dropped = set()
        store.make_root()
        assert list(server.folder.rglob("*.cdc-*")) == []


def lines(storage: ObjectStore) -> set[str]:
    """The distinct errors of all operations of an unusable store."""
    errors = set()
    for ask in (
        storage.make_root,
        lambda: storage.read("x"),
        lambda: storage.open("x"),
        lambda: storage.write("x", b"x"),
        lambda: storage.put_if_absent("x", b"x"),
        lambda: storage.list_names("x"),
        lambda: stream(storage),
    ):
        with pytest.raises(CdcError) as raised:
            ask()
        assert "\n" not in str(raised.value)
        errors.add(f"{type(raised.value).__name__}: {raised.value}")
    return errors


def stream(storage: ObjectStore) -> None:
    with storage.open_writer("x") as file:
        file.write(bytes(20_000_000))


def test_a_missing_bucket_is_reported(s3_server: S3Server) -> None:
    for line in lines(ObjectStore("no-such-bucket", "t", s3_server.access)):
        assert line.startswith(f"PreconditionError: there is no bucket for {SCHEME}no-such-bucket/t")
        assert line.endswith(f" at {s3_server.endpoint} → make it, or name another in the lake's path")


def test_wrong_keys_are_reported(s3_server: S3Server) -> None:
    for line in lines(ObjectStore(s3_server.bucket(), "t", access_at(s3_server.endpoint, "canary-wrong"))):
        assert line.startswith(f"PreconditionError: {s3_server.endpoint} refuses {SCHEME}")
        assert line.endswith("(403 SignatureDoesNotMatch) → check the keys, and what they may do in this bucket")
        assert "canary" not in line


def test_an_unreachable_store_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clients.RETRIES, "max_retries", 1)
    for line in lines(ObjectStore("bucket", "t", access_at(NOBODY))):
        assert line.startswith(f"UnreachableError: the object store at {NOBODY} does not answer for {SCHEME}bucket/t")
        assert line.endswith(" → is it running, and s3.endpoint its address?")


def test_missing_credentials_are_reported(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clients.RETRIES, "max_retries", 1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOBODY)
    access = S3Settings(endpoint=s3_server.endpoint, path_style=True, allow_http=True).complete({})
    with pytest.raises(PreconditionError, match=r"no credentials for s3://.* → give s3\.access_key_id and"):
        ObjectStore(s3_server.bucket(), "t", access).list_names("")


def test_keys_come_from_the_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = s3_server.access
    assert keys.access_key_id is not None
    assert keys.secret_access_key is not None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.access_key_id.get_secret_value())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys.secret_access_key.get_secret_value())
    environ = {"AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_REGION": "eu-central-1"}
    access = S3Settings(path_style=True, allow_http=True).complete(environ)
    storage = ObjectStore(s3_server.bucket(), "t", access)
    storage.write("a", b"x")
    assert storage.list_names("") == ["a"]


def test_given_keys_ignore_the_environment(
    s3_server: S3Server, way: tuple[str, Disturbance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and addresses in the environment belong to other stores."""
    foreign = {
        "AWS_ACCESS_KEY_ID": "foreign",
        "AWS_SECRET_ACCESS_KEY": "foreign",
        "AWS_SESSION_TOKEN": "foreign",
        "AWS_ENDPOINT_URL": NOBODY,
        "AWS_ENDPOINT_URL_S3": NOBODY,
        "AWS_REGION": "eu-central-1",
        "AWS_CONDITIONAL_PUT": "disabled",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    storage = open_storage(f"{SCHEME}{s3_server.bucket()}/x", access_at(way[0]).complete())
    storage.make_root()
    assert storage.put_if_absent("a", b"x")
    assert "if-none-match" in way[1].headers
    assert "x-amz-security-token" not in way[1].headers


def test_a_session_token_is_sent_with_its_keys(s3_server: S3Server, way: tuple[str, Disturbance]) -> None:
    access = access_at(way[0]).model_copy(update={"session_token": SecretStr("token")})
    # the server does not know tokens, and says so
    with pytest.raises(PreconditionError, match="501 NotImplemented"):
        open_storage(f"{SCHEME}{s3_server.bucket()}/x", access).read("a")
    assert "x-amz-security-token" in way[1].headers


def test_requests_go_to_the_configured_address() -> None:
    access = S3Settings(endpoint="https://store.example:9000")
    assert s3_client.address("lake", access) == "https://lake.store.example:9000"
    assert s3_client.address("lake", access.model_copy(update={"path_style": True})) == access.endpoint
    assert s3_client.address("lake", S3Settings()) is None


def test_only_retryable_statuses_are_unreachable(store: ObjectStore, disturbance: Disturbance) -> None:
    disturbance.times, disturbance.landing = 1000, False
    with pytest.raises(UnreachableError, match=r"does not answer for s3://.*/t/0.json \(500"):
        store.write("0.json", b"x")


def test_spark_finds_keys_where_none_are_given(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    """By the default chain of Amazon's client, which includes Java's properties."""
    lake = on_server(s3_server, tmp_path)
    copy_rows(lake, THINGS, [row(n, "old") for n in range(10)])
    settings = S3Settings(endpoint=s3_server.endpoint, region="us-east-1", path_style=True, allow_http=True)
    reach(spark, settings)
    assert spark.sparkContext._jvm is not None
    java = spark.sparkContext._jvm.java.lang.System
    keys = {"aws.accessKeyId": KEY, "aws.secretAccessKey": SECRET}
    for name, value in keys.items():
        java.setProperty(name, value)
    try:
        assert spark.read.format("delta").load(lake.folder(THINGS.name)).count() == 10
    finally:
        for name in keys:
            java.clearProperty(name)

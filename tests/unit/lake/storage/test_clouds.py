"""Lakes at Google and Azure, on their emulators: what S3 is tried for, for each of them, and who else reads them."""

import json
import pickle
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars
import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from cdc.core.errors import CdcError, ConfigurationError, PreconditionError
from cdc.run.doctor.facts.store import try_store
from cdc.sinks.lake.cloud_settings import AzureSettings, GoogleSettings, split_path
from cdc.sinks.lake.feed.frames import open_frame
from cdc.sinks.lake.feed.small_tables import hold_small
from cdc.sinks.lake.removal import find_files, remove
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.lake.storage import clients
from cdc.sinks.lake.storage.base import open_storage
from cdc.sinks.lake.storage.cloud_clients import storage_options
from cdc.sinks.lake.storage.object_store import ObjectStore
from tests.support.histories import THINGS
from tests.support.lake.disturbance import Disturbance, run_disturbance
from tests.support.lake.places import PlacedLake, on_cloud
from tests.support.lake.tables import apply, copy_rows, open_writer, read_by_delta_rs, row, update
from tests.support.parts.cloud_fixtures import ACCOUNT, AzureServer, GoogleServer, make_service_account
from tests.support.parts.google_gate import HEEDLESS
from tests.support.parts.object_store_fixture import S3Server, access_at
from tests.support.waiting import until

pytestmark = pytest.mark.servers
CloudServer = AzureServer | GoogleServer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    soon = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2}
    monkeypatch.setitem(clients.RETRIES, "backoff", soon)


@pytest.fixture(params=["azure", "google"])
def server(request: pytest.FixtureRequest) -> CloudServer:
    found: CloudServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def way(server: CloudServer) -> Iterator[tuple[str, Disturbance]]:
    """A way to the store, on which responses are spoiled."""
    host = server.endpoint.removesuffix(f"/{ACCOUNT}")
    with run_disturbance(host) as (address, disturbance):
        yield server.endpoint.replace(host, address), disturbance


ANSWERS = [
    pytest.param(500, True, id="landed and answered 500"),
    pytest.param(None, True, id="landed and hung up"),
    pytest.param(409, False, id="409: try again"),
    pytest.param(None, False, id="not landed and hung up"),
]


@pytest.mark.parametrize(("answer", "landing"), ANSWERS)
def test_a_put_with_a_spoiled_answer_is_taken_for_whose_it_is(
    server: CloudServer, way: tuple[str, Disturbance], answer: int | None, landing: bool
) -> None:
    """Ours where nobody was before it, another writer's where he was."""
    disturbance, bucket = way[1], server.bucket()
    store, beside = ObjectStore(bucket, "t", server.access_at(way[0])), ObjectStore(bucket, "t", server.access)
    disturbance.times, disturbance.answer, disturbance.landing = 1, answer, landing
    assert store.put_if_absent("0.json", b"mine")
    assert disturbance.times == 0
    disturbance.times, disturbance.instead = 1, lambda: beside.put_if_absent("1.json", b"theirs")
    assert not store.put_if_absent("1.json", b"mine")
    assert (store.read("0.json"), store.read("1.json")) == (b"mine", b"theirs")


def test_commits_with_lost_answers_are_there_once_and_others_read_them(
    server: CloudServer, way: tuple[str, Disturbance], tmp_path: Path, spark: SparkSession
) -> None:
    direct = on_cloud(server, tmp_path)
    copy_rows(direct, THINGS, [row(n, "old") for n in range(10)])
    lake = PlacedLake(direct.path, "p", server.access_at(way[0]), indexes=tmp_path)
    writer = open_writer(lake)
    version = writer.snapshot.version
    for rank in range(1, 6):
        # Google's client writes an underscore as %5F
        way[1].times, way[1].of, way[1].answer = 1, "delta", None if rank % 2 else 500
        apply(writer, update(rank, row(rank, "new")), rank)
        assert way[1].times == 0
    assert writer.snapshot.version == version + 5
    new = {1, 2, 3, 4, 5}
    assert {key for key, values in read_by_delta_rs(direct).items() if values["big"] == "new"} == new
    held = hold_small(direct, THINGS)
    assert held is not None
    framed = open_frame(spark, direct, THINGS.name)
    scanned = polars.scan_delta(direct.folder(THINGS.name), storage_options=dict(direct.options)).collect()
    assert sorted(held["id"].to_pylist()) == sorted(each["id"] for each in framed.collect()) == [*range(10)]
    assert {each["id"] for each in framed.where("big = 'new'").collect()} == new
    assert {*scanned.filter(polars.col("big") == "new")["id"]} == new
    assert open_frame(spark, direct, THINGS.name, version).where("big = 'new'").count() == 0
    remove(direct)
    assert find_files(direct).files == 0


COMMITS = """
import pickle, sys
storage = pickle.load(sys.stdin.buffer)
part = bytes(1 << 20)
for n in range(10_000):
    with storage.open_writer(f"{n}.parquet") as rows:
        for _ in range(10):
            rows.write(part)
    storage.put_if_absent(f"_delta_log/{n}.json", b"%d" % n * 100, f"_delta_log/{n - 1}.json" if n else None)
"""


def test_a_killed_writer_leaves_whole_commits_and_the_next_one_goes_on(server: CloudServer) -> None:
    """Killed wherever it is: what a commit names is there, as a whole."""
    store = ObjectStore(server.bucket(), "t", server.access)
    process = subprocess.Popen([sys.executable, "-c", COMMITS], stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as told:
        told.write(pickle.dumps(store))
    until(lambda: len(store.list_names("_delta_log")) > 2, "some commits")
    process.kill()
    process.wait()
    count = len(store.list_names("_delta_log"))
    for number in range(count):
        assert store.read(f"_delta_log/{number}.json") == b"%d" % number * 100
        with store.open(f"{number}.parquet") as rows:
            assert rows.size() == 10 << 20
    assert len([name for name in store.list_names("") if name.endswith(".parquet")]) in (count, count + 1)
    assert not store.put_if_absent(f"_delta_log/{count - 1}.json", b"another")
    assert store.put_if_absent(f"_delta_log/{count}.json", b"next", f"_delta_log/{count - 1}.json")


def test_wrong_keys_are_reported_in_one_line_without_them(server: CloudServer) -> None:
    wrong = make_service_account()[1] if isinstance(server, GoogleServer) else b64encode(b"canary" * 10).decode()
    store = ObjectStore(server.bucket(), "t", server.access_at(server.endpoint, wrong))
    for ask in (lambda: store.read("x"), lambda: store.put_if_absent("x", b"x"), lambda: store.list_names("")):
        with pytest.raises(PreconditionError, match=r" refuses .*/t.* → check the keys") as raised:
            ask()
        assert "\n" not in str(raised.value)
        assert wrong not in str(raised.value)


def test_a_missing_container_is_reported(azure_server: AzureServer) -> None:
    with pytest.raises(PreconditionError, match=r"there is no bucket for az://none/t/x at .* → make it"):
        ObjectStore("none", "t", azure_server.access).put_if_absent("x", b"x")


def test_a_store_that_overlooks_conditions_is_refused(google_server: GoogleServer) -> None:
    """Its emulator does, in one of its own ways to write."""
    store = ObjectStore(google_server.bucket(), "t", google_server.access)
    google_server.tell(HEEDLESS)
    try:
        with pytest.raises(PreconditionError, match=r"gs://.*/t overwrites what it is told to leave"):
            store.make_root()
    finally:
        google_server.tell("")
    store.make_root()
    assert store.list_names("") == []
    assert google_server.tell("") == ["0"]


def test_given_keys_are_used_alone(server: CloudServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says is of other stores; what would mix all the same is refused by name."""
    foreign = {
        **dict.fromkeys(("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_TOKEN"), "foreign"),
        **{
            "AZURE_ENDPOINT": "http://127.0.0.1:9",
            "AZURE_SKIP_SIGNATURE": "true",
            "AZURE_CREDENTIAL_TYPE": "sas_token",
        },
        **{"GOOGLE_BASE_URL": "http://127.0.0.1:9", "GOOGLE_SKIP_SIGNATURE": "true"},
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    access = server.access.complete()
    bucket = server.bucket()
    storage = open_storage(f"{access.scheme}{bucket}/x", access)
    assert storage.put_if_absent("a", b"x")
    if isinstance(access, GoogleSettings):
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/foreign")
        with pytest.raises(PreconditionError, match=r"GOOGLE_SERVICE_ACCOUNT is set, and gs\.service_account_key"):
            open_storage(f"{access.scheme}{server.bucket()}/x", access).read("a")


def test_paths_and_settings_of_the_clouds() -> None:
    hadoop = DeltaSettings(kind="delta", path="abfss://box@ours.dfs.core.chinacloudapi.cn/a/b")
    assert split_path(hadoop.path) == ("box", "a/b")
    access = hadoop.access
    assert isinstance(access, AzureSettings)
    assert (access.account, access.endpoint) == ("ours", "https://ours.blob.core.chinacloudapi.cn")
    assert ObjectStore.at(hadoop.path, access).uri() == hadoop.path
    named = DeltaSettings.model_validate({"kind": "delta", "path": "az://box/a", "azure": {"account": "ours"}})
    assert named.access is not None
    assert named.access.endpoint == "https://ours.blob.core.windows.net"
    google = DeltaSettings(kind="delta", path="gs://box").access
    assert (google and google.endpoint, google and google.server) == (None, "Google Cloud Storage")
    with pytest.raises(ConfigurationError, match=r"no storage account is named for az://box/a → set azure\.account"):
        AzureSettings().complete({}, "az://box/a")
    with pytest.raises(ConfigurationError, match="GOOGLE_BASE_URL http://a is not encrypted"):
        GoogleSettings().complete({"GOOGLE_BASE_URL": "http://a"})


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (
            {"account_key": "Y2FuYXJ5", "sas_token": "canary"},
            "account_key, sas_token and client_id are given one at most",
        ),
        ({"client_id": "a", "client_secret": "canary"}, "client_id, client_secret and tenant_id are given all three"),
        ({"tenant_id": "a"}, "client_id, client_secret and tenant_id are given all three"),
        ({"endpoint": "http://a"}, "is not encrypted"),
        ({"account_key": "canary!"}, "is no key of a storage account"),
    ],
)
def test_contradicting_settings_are_refused(block: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        AzureSettings.model_validate(block)


@pytest.mark.parametrize("key", ["canary", "[]", '{"type": "authorized_user", "refresh_token": "canary"}'])
def test_what_is_no_service_accounts_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="is not the JSON of a service account's key") as raised:
        GoogleSettings.model_validate({"service_account_key": key})
    assert "canary" not in str(raised.value.errors(include_input=False))


def test_a_key_that_no_client_takes_is_not_shown(google_server: GoogleServer) -> None:
    key = json.dumps({"client_email": "a@b", "private_key": "canary"})
    store = ObjectStore(google_server.bucket(), "t", google_server.access_at(google_server.endpoint, key))
    with pytest.raises(PreconditionError, match="make no client of Google Cloud Storage → check its keys") as raised:
        store.read("x")
    assert "canary" not in str(raised.value)


def test_a_missing_login_is_reported(server: CloudServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own service for credentials is asked last, and there is none here."""
    monkeypatch.setitem(clients.RETRIES, "max_retries", 0)
    access = server.access.model_copy(update={"account_key": None, "service_account_key": None})
    hints = {"gs": r"give gs\.service_account_key", "azure": r"give azure\.account_key"}
    with pytest.raises(CdcError, match=rf"no credentials for {access.scheme}.* → {hints[access.block]}"):
        ObjectStore(server.bucket(), "t", access).read("x")


def test_a_doctor_tries_every_right_and_leaves_nothing(server: CloudServer) -> None:
    store = ObjectStore(server.bucket(), "t", server.access)
    found = try_store(store.uri(), store.access)
    # the gate before Google's emulator takes no signed address
    unseen = None if isinstance(server, GoogleServer) else False
    assert (found.refused, found.heeds, found.expiry, found.is_versioned) == ({}, True, "", unseen)
    assert store.list_names("_cdc") == []
    wrong = make_service_account()[1] if isinstance(server, GoogleServer) else b64encode(b"canary" * 10).decode()
    refused = try_store(store.uri(), server.access_at(server.endpoint, wrong))
    assert (refused.heeds, refused.is_versioned, sorted(refused.refused)) == (None, None, ["list", "write"])


def test_a_doctor_reads_the_buckets_rules_off_its_answers(s3_server: S3Server) -> None:
    """As Amazon's store gives them: S3Proxy has neither rules nor versions."""
    rule = 'expiry-date="Fri, 04 Dec 2026 00:00:00 GMT", rule-id="all"'
    path = f"s3://{s3_server.bucket()}/lake"
    with run_disturbance(s3_server.endpoint) as (address, disturbance):
        disturbance.added = {"x-amz-expiration": rule, "x-amz-version-id": "3HL4kqtJvjVBH40Nrjfkd"}
        found = try_store(path, access_at(address))
    assert (found.heeds, found.expiry, found.is_versioned) == (True, rule, True)
    assert try_store(path, s3_server.access).is_versioned is False


def test_options_of_other_readers_have_the_keys(server: CloudServer) -> None:
    options = storage_options(server.access)
    assert options["allow_http"] == "true"
    assert server.key in options.values()
    assert json.dumps(options)

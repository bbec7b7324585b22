"""`cdc erase` on the real parts: the bytes of a row with a past are everywhere before, and nowhere after."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.core.errors import PreconditionError, RefusedError
from cdc.core.table import TableName
from cdc.log.clients.eraser import LogEraser
from cdc.log.names import change_topic, latest_topic
from cdc.run.dead_letters import list_blocked_keys
from cdc.run.erase.erase import Erasure
from cdc.run.erase.progress import ErasureProgress
from cdc.run.signatures import SigningKey
from cdc.run.verify.chains import check_chains
from tests.faults.test_dead_letters import key_of, plant
from tests.support.cdc_inprocess import bootstrap, catch_up, catch_up_but_for, lend_session, verify
from tests.support.parts.pipelines import MakePipeline, Pipeline

pytestmark = pytest.mark.timeout(1200)
PEOPLE = TableName("public", "people")
SECRETS = ['Canary "Zoë" 4711-a', "canary.b@example.org", "canary-c-0815", "canary-dead-letter"]
"""Values of the row's versions, oldest first, and of a message that cannot be applied."""
MADE = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, seen int, more jsonb)",
    "CREATE TABLE searches (id int PRIMARY KEY, query jsonb)",
    "INSERT INTO people SELECT n, 'person ' || n, n, '{}' FROM generate_series(1, 50) n",
    """INSERT INTO searches VALUES (7, '{"range": {"seen": {"lt": 100}}}')""",
)
VIEWS = """history: [public.people]
views:
  shop.named:
    key: [id]
    sql: SELECT id, upper(name) AS name, name AS as_it_is FROM public.people
  shop.versions:
    key: [id]
    sql: SELECT id, count(*) AS n, max(name) AS last FROM public.people_history GROUP BY id
erase:
  signing_key: ${file:erase.pem}

followers:
  alerts:
    kind: percolator
    url: URL
    queries: {table: public.searches, column: query}
    tables: [public.people]
"""


STEPS = ["values", "search", "source", "followers", "dead letters", "histories", "views", "rewrite", "segments"]
STEPS += ["cut", "change topics", "compacted topics", "past", "indexes", "machine"]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def pipeline(make_shared_pipeline: MakePipeline, spark: SparkSession) -> Pipeline:
    made = make_shared_pipeline(*MADE, tables=("public.people", "public.searches"))
    made.configure("followers:\n", VIEWS.replace("URL", made.servers.values.search_url))
    make_key(made)
    bootstrap(made, spark)
    return made


def make_key(pipeline: Pipeline) -> None:
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = pipeline.config.parent / "erase.pem"
    path.write_bytes(key)
    path.chmod(0o600)


@pytest.fixture
def verbs(pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs of the command line find their passwords and a session."""
    pipeline.set_environ(monkeypatch)
    lend_session(spark, monkeypatch)


def erase(pipeline: Pipeline, *options: str) -> int:
    folders = [f"--folder={folder}" for folder in data_folders(pipeline)]
    return main(["--config", str(pipeline.config), "erase", "--table", str(PEOPLE), *folders, *options])


def data_folders(pipeline: Pipeline) -> Iterator[Path]:
    """The folders of Kafka's topics and of the indexes that this machine has, but for those of other tests' pipelines,
    which would take longer to search than all else."""
    if not (home := pipeline.servers.home):
        return
    others = re.compile(r"(?!.*" + pipeline.settings.pipeline.name + r").*t[0-9a-f]{10}")
    yield from (
        each for each in (home.folder("kafka") / "data").iterdir() if each.is_dir() and not others.match(each.name)
    )
    found = httpx.get(f"{pipeline.servers.values.search_url}/_cat/indices?format=json&expand_wildcards=all").json()
    apart = {each["uuid"] for each in found if others.match(each["index"])}
    [indexes] = (home.folder("search") / "data").glob("nodes/*/indices")
    yield from (each for each in indexes.iterdir() if each.name not in apart)


def plant_canaries(pipeline: Pipeline, spark: SparkSession) -> None:
    """A row of several versions, followed by all, with a message that cannot be applied, and a line of a log."""
    first, second, third, dead = SECRETS
    pipeline.run(f"INSERT INTO people VALUES (4711, '{first}', 1, '{{}}')")
    catch_up(pipeline, spark)
    pipeline.run(
        f"UPDATE people SET name = '{second}' WHERE id = 4711",
        f"""UPDATE people SET more = '{{"deep": ["{third}"]}}' WHERE id = 4711""",
        "INSERT INTO people VALUES (51, 'another one', 5, '{}')",
    )
    catch_up(pipeline, spark)
    plant(pipeline, PEOPLE, [(key_of(4711), f'{{"broken": "{dead}"'.encode())])
    logs = pipeline.opened().state / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "somebody.log").write_text(f"a line about {second}\n")


def test_bytes_of_a_row_are_nowhere_after(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_canaries(pipeline, spark)
    assert erase(pipeline, "--key", "4711", "--yes") == RefusedError.exit_code
    assert "the source still has this row of public.people" in capsys.readouterr().err
    pipeline.run("DELETE FROM people WHERE id = 4711")
    catch_up_but_for(pipeline, spark, "1 key held")
    with pipeline.opened().leases.hold("latest"):
        assert erase(pipeline, "--key", "4711", "--yes") == RefusedError.exit_code
    own, asked = read_topics(pipeline), ("--key", "4711", f"--value={SECRETS[3]}", "--yes", "--json")
    assert erase(pipeline, *asked, "--dry-run") == 0
    capsys.readouterr()
    with lagging_group(pipeline) as group:
        assert erase(pipeline, *asked) == PreconditionError.exit_code
    assert f"consumer group {group} has not read " in capsys.readouterr().err
    assert read_topics(pipeline) == own
    assert erase(pipeline, *asked) == 0
    written = capsys.readouterr()
    answer = json.loads(written.out)
    check_report(answer)
    shown = written.out + written.err + Path(answer["report"]).read_text()
    assert not [secret for secret in (*SECRETS, '"id":4711', '"id": 4711', "= 4711") if secret in shown]
    assert read_topics(pipeline) == own
    check_what_is_left(pipeline, spark)


@contextmanager
def lagging_group(pipeline: Pipeline) -> Iterator[str]:
    """A consumer group that has read nothing of the change topic yet, deleted at the end, as the remedy says."""
    log, group = pipeline.settings.log, f"reader of {pipeline.settings.pipeline.name}"
    places = [TopicPartition(change_topic(log.prefix, PEOPLE), partition, 0) for partition in range(log.partitions)]
    reader = Consumer({"bootstrap.servers": log.bootstrap, "group.id": group})
    reader.commit(offsets=places, asynchronous=False)
    reader.close()
    yield group
    with AdminClient({"bootstrap.servers": log.bootstrap}) as admin:
        admin.delete_consumer_groups([group])[group].result()


def check_report(answer: Mapping[str, Any]) -> None:
    path = Path(answer["report"])
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(json.loads(path.read_bytes())["public_key"]))
    public.verify(path.with_suffix(".sig").read_bytes(), path.read_bytes())
    assert not [*path.parent.glob("*.progress.json")]
    before = {place["place"]: place["found"] for place in answer["before"]["places"]}
    after = {place["place"]: place["found"] for place in answer["after"]["places"]}
    assert not any(after.values())
    for kind in ("lake", "folder", "state folder", "topic", "index"):
        assert any(found for place, found in before.items() if place.startswith(kind)), (kind, before)


def check_what_is_left(pipeline: Pipeline, spark: SparkSession) -> None:
    """Everything but the row is there, the chain goes on over it, and an erased key may come again."""
    assert list_blocked_keys(pipeline.opened()) == []
    [chain] = check_chains(pipeline.opened())
    assert chain.is_whole
    # its versions before the message that could not be applied
    assert chain.erased >= 3
    pipeline.run("INSERT INTO people VALUES (4711, 'somebody new', 9, '{}')")
    catch_up(pipeline, spark)
    assert verify(pipeline, spark).is_equal
    assert check_chains(pipeline.opened())[0].is_whole


def read_topics(pipeline: Pipeline) -> list[Mapping[str, str | None]]:
    """What the topics say of the properties that an erasure changes."""
    prefix, names = pipeline.settings.log.prefix, ("segment.ms", "delete.retention.ms", "file.delete.delay.ms")
    with LogEraser(pipeline.settings.log) as eraser:
        return [eraser.read_own(topic(prefix, PEOPLE), names) for topic in (change_topic, latest_topic)]


@pytest.mark.further
def test_an_erasure_that_is_killed_at_each_step_goes_on(
    pipeline: Pipeline, spark: SparkSession, quicker: None, verbs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.run("INSERT INTO people VALUES (815, 'canary of the second', 1, '{}')")
    catch_up(pipeline, spark)
    own, killed, finish = read_topics(pipeline), list[str](), ErasureProgress.finish

    def finish_or_die(self: ErasureProgress, step: str) -> None:
        if step not in killed:
            killed.append(step)
            raise Killed
        finish(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(ErasureProgress, "finish", finish_or_die)
        # what dies sets nothing back
        patched.setattr(Erasure, "_restore", lambda self: None)
        while "machine" not in killed:
            with pytest.raises(Killed):
                erase(pipeline, "--key", "815", "--delete-at-source", "--yes")
    assert killed == STEPS
    assert read_topics(pipeline) != own
    assert erase(pipeline, "--key", "815", "--yes") == 0
    assert read_topics(pipeline) == own
    assert verify(pipeline, spark).is_equal
    check_tombstones_of_another_key(pipeline)


def check_tombstones_of_another_key(pipeline: Pipeline) -> None:
    """Who has not the key, or one that is named, writes no tombstone that counts."""
    before = SigningKey.load(pipeline.settings.erase).public
    make_key(pipeline)
    [chain] = check_chains(pipeline.opened())
    assert chain.broken is not None
    pipeline.configure("erase:\n", f"erase:\n  former_keys: ['{before}']\n")
    assert check_chains(pipeline.opened())[0].is_whole

"""The lock file and what it says."""

import tomllib
from pathlib import Path

import pyspark
import pytest

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.local.fetch.artifacts import LOCK_FILE, Artifact, artifacts_for, parse, platform_name, split
from cdc.local.fetch.lock import DECLARED, render

ONE = Artifact("org.example:thing:1.0", "ab" * 32, 7)
OTHER = Artifact("org.example:thing:1.0:native", "cd" * 32, 8, "linux-amd64")


def test_rendered_lock_parses_to_the_same() -> None:
    assert parse(render({"kafka": [ONE], "postgres": [OTHER]})) == {"kafka": (ONE,), "postgres": (OTHER,)}


def test_artifact_has_mavens_path() -> None:
    assert ONE.path == Path("org/example/thing/1.0/thing-1.0.jar")
    assert OTHER.path == Path("org/example/thing/1.0/thing-1.0-native.jar")


@pytest.mark.parametrize("wrong", ["", "a", "a:b", "a:b:", "a:b:c:d:e"])
def test_wrong_coordinate_is_named(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="is no group:name:version"):
        split(wrong)


def test_incomplete_entry_names_its_part() -> None:
    with pytest.raises(ConfigurationError, match="an entry of kafka"):
        parse('[[kafka]]\nartifact = "a:b:1"\nbytes = 1\n')


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "linux-amd64"),
        ("Linux", "aarch64", "linux-arm64v8"),
        ("Darwin", "arm64", "darwin-arm64v8"),
        ("Darwin", "x86_64", "darwin-amd64"),
        ("Windows", "AMD64", "windows-amd64"),
    ],
)
def test_platform_has_the_name_of_its_binaries(system: str, machine: str, name: str) -> None:
    assert platform_name(system, machine) == name


def test_each_platform_has_one_postgres() -> None:
    for platform in ("linux-amd64", "linux-arm64v8", "darwin-amd64", "darwin-arm64v8"):
        assert [found.platform for found in artifacts_for("postgres", platform)] == [platform]


def test_platform_without_binaries_is_refused() -> None:
    with pytest.raises(PreconditionError, match="no postgres binaries are published for windows-amd64"):
        artifacts_for("postgres", "windows-amd64")


def test_unknown_part_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no part 'zookeeper'"):
        artifacts_for("zookeeper")


def test_every_root_is_locked() -> None:
    lock = parse(LOCK_FILE.read_text(encoding="utf-8"))
    for part, wish in tomllib.loads(DECLARED.read_text(encoding="utf-8")).items():
        declared = {*wish.get("roots", []), *wish.get("platforms", {}).values()}
        assert declared <= {found.coordinate for found in lock[part]}


def test_plugin_has_no_jar_of_the_worker() -> None:
    names = {split(found.coordinate)[1] for found in artifacts_for("debezium")}
    assert names.isdisjoint({"kafka-clients", "connect-api", "slf4j-api"})


def test_spark_jars_exclude_those_of_pyspark() -> None:
    groups = {split(artifact.coordinate)[0] for artifact in artifacts_for("spark")}
    assert groups.isdisjoint({"org.scala-lang", "org.apache.hadoop", "com.fasterxml.jackson.core", "org.slf4j"})
    shipped = {path.name for path in Path(pyspark.__file__).with_name("jars").glob("*.jar")}
    assert shipped.isdisjoint({artifact.path.name for artifact in (*artifacts_for("spark"), *artifacts_for("s3a"))})


def test_object_store_jars_match_sparks_hadoop() -> None:
    [jar] = Path(pyspark.__file__).with_name("jars").glob("hadoop-client-api-*.jar")
    version = jar.stem.removeprefix("hadoop-client-api-")
    assert f"org.apache.hadoop:hadoop-aws:{version}" in {artifact.coordinate for artifact in artifacts_for("s3a")}
    assert sum(artifact.size for artifact in artifacts_for("s3a")) < 20_000_000


def test_broker_and_worker_have_one_kafka_version() -> None:
    found = [split(a.coordinate) for part in ("kafka", "connect") for a in artifacts_for(part)]
    assert {version for group, _, version, _ in found if group == "org.apache.kafka"} == {"4.3.1"}

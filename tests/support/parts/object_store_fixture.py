"""A real S3 server for tests: S3Proxy on a folder, where each bucket is a folder and each object a file."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from cdc.local.fetch.jars import fetch
from cdc.local.servers.java import find_java
from cdc.sinks.lake.settings import S3Settings
from cdc.sinks.lake.storage import spark_s3a as s3a
from tests.support.parts.ports import server_ports
from tests.support.parts.server_process import run_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY, SECRET = "test-key", "canary-secret"
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-DLOG_LEVEL=warn")


@dataclass(frozen=True)
class S3Server:
    """Where the server answers, and the folder of its buckets."""

    endpoint: str
    folder: Path

    @property
    def access(self) -> S3Settings:
        return access_at(self.endpoint)

    def bucket(self) -> str:
        """Make a bucket; its name."""
        name = f"b{secrets.token_hex(5)}"
        (self.folder / name).mkdir()
        return name


def access_at(endpoint: str, secret: str = SECRET) -> S3Settings:
    return S3Settings(
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=SecretStr(KEY),
        secret_access_key=SecretStr(secret),
        path_style=True,
        allow_http=True,
    )


def delta_rs_options(access: S3Settings) -> dict[str, str]:
    """What delta-rs and polars are told."""
    return {
        "aws_endpoint_url": access.endpoint or "",
        "aws_endpoint_url_s3": access.endpoint or "",
        "aws_region": access.region or "",
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }


def reach(spark: "SparkSession", access: S3Settings) -> None:
    """Let a session that runs already read from this server, as one that is started for its lake would."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in s3a.conf(access).items():
        hadoop.set(name.removeprefix("spark.hadoop."), value)
    s3a.give_keys(spark, access)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that all tests of a run share, each with buckets of its own."""
    with started(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextmanager
def started(folder: Path, **properties: str) -> Iterator[S3Server]:
    """A server for as long as the context lasts."""
    buckets = folder / "buckets"
    buckets.mkdir()
    endpoint = f"http://127.0.0.1:{server_ports(1)[0]}"
    own = {
        "s3proxy.endpoint": endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem",
        "jclouds.filesystem.basedir": str(buckets),
    }
    file = folder / "s3proxy.conf"
    wanted = {**own, **{f"s3proxy.{name}": value for name, value in properties.items()}}
    file.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
    command = find_java().command("org.gaul.s3proxy.Main", OPTIONS, ["--properties", str(file)])
    with run_server(command, endpoint, folder / "log", {"CLASSPATH": str(fetch("s3proxy")[0])}):
        yield S3Server(endpoint, buckets)

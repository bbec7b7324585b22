"""Test lakes in a folder and on object stores; the first two give access to their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.core.table import TableName
from cdc.sinks.lake.layout import Lake, folder_name
from cdc.sinks.lake.settings import SCHEME, S3Settings
from cdc.sinks.lake.storage.cloud_clients import storage_options
from tests.support.parts.cloud_fixtures import AzureServer, GoogleServer
from tests.support.parts.object_store_fixture import S3Server, delta_rs_options, reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ("folder", pytest.param("object store", marks=pytest.mark.servers))
"""Parameters of a lake fixture."""
CLOUDS = tuple(pytest.param(name, marks=pytest.mark.servers) for name in ("azure", "google"))
"""Further ones: stores whose files no test sees."""


@dataclass(frozen=True, slots=True)
class PlacedLake(Lake):
    """A lake, the local path of its objects, and the folder of its indexes."""

    files: Path = Path()
    indexes: Path = Path()

    def disk(self, name: TableName) -> Path:
        """The local folder of a table's files."""
        return self.files / folder_name(name)

    @property
    def options(self) -> Mapping[str, str]:
        """delta-rs' and polars' storage options for this lake."""
        match self.access:
            case None:
                return {}
            case S3Settings():
                return delta_rs_options(self.access)
            case _:
                return storage_options(self.access)

    def for_spark(self, spark: "SparkSession") -> "SparkSession":
        """The session with access to this lake."""
        if isinstance(self.access, S3Settings):
            reach(spark, self.access)
        return spark


def place_lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    """An empty lake at the fixture's parameter."""
    match request.param:
        case "folder":
            return in_folder(tmp_path)
        case "object store":
            return on_server(request.getfixturevalue("s3_server"), tmp_path)
        case cloud:
            return on_cloud(request.getfixturevalue(f"{cloud}_server"), tmp_path)


def in_folder(path: Path) -> PlacedLake:
    lake = path / "lake"
    return PlacedLake(str(lake), "p", files=lake, indexes=path)


def on_server(server: S3Server, path: Path) -> PlacedLake:
    bucket = server.bucket()
    files = server.folder / bucket / "a/lake"
    return PlacedLake(f"{SCHEME}{bucket}/a/lake", "p", server.access, files=files, indexes=path)


def on_cloud(server: AzureServer | GoogleServer, path: Path) -> PlacedLake:
    access = server.access
    # the account's endpoint is what the path leaves open
    return PlacedLake(f"{access.scheme}{server.bucket()}/a/lake", "p", access, indexes=path)

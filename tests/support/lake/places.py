"""Test lakes in a folder and on an object store; both give access to their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.core.table import TableName
from cdc.sinks.lake.layout import Lake, folder_name
from cdc.sinks.lake.settings import SCHEME
from tests.support.parts.object_store_fixture import S3Server, delta_rs_options, reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = ("folder", pytest.param("object store", marks=pytest.mark.servers))
"""Parameters of a lake fixture."""


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
        return {} if self.access is None else delta_rs_options(self.access)

    def for_spark(self, spark: "SparkSession") -> "SparkSession":
        """The session with access to this lake."""
        if self.access is not None:
            reach(spark, self.access)
        return spark


def place_lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    """An empty lake at the fixture's parameter."""
    return (
        on_server(request.getfixturevalue("s3_server"), tmp_path) if request.param != "folder" else in_folder(tmp_path)
    )


def in_folder(path: Path) -> PlacedLake:
    lake = path / "lake"
    return PlacedLake(str(lake), "p", files=lake, indexes=path)


def on_server(server: S3Server, path: Path) -> PlacedLake:
    bucket = server.bucket()
    files = server.folder / bucket / "a/lake"
    return PlacedLake(f"{SCHEME}{bucket}/a/lake", "p", server.access, files=files, indexes=path)

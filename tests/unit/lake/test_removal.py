"""A lake is taken away with its histories, in a folder and on an object store; what else lies there stays."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc.sinks.lake.layout import folder_name
from cdc.sinks.lake.removal import find_files, remove
from tests.support.lake.places import PLACES, PlacedLake, place_lake
from tests.support.lake.tracked import NAME, TrackedLake


@pytest.fixture(params=PLACES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> PlacedLake:
    return place_lake(request, tmp_path)


def test_only_the_lake_is_removed(lake: PlacedLake) -> None:
    TrackedLake(lake)
    table = pa.table({"id": [1]})
    write_deltalake(f"{lake.path}/public/of_a_user", table, storage_options=dict(lake.options))
    found = find_files(lake)
    assert found.histories == [f"{folder_name(NAME)}_history"]
    assert set(found.folders) == {"_cdc", folder_name(NAME), "public/others", *found.histories}
    assert {Path(name).parts[:2] for name in found.foreign} == {("public", "of_a_user")}
    remove(lake)
    left = find_files(lake)
    assert (left.files, left.histories, left.foreign) == (0, [], found.foreign)
    remove(lake)

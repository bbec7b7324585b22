"""How many documents a page has: their bytes decide, since a node has a whole page in memory."""

import pytest

from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.search.read import IndexSource

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("count", "size", "page"),
    [
        pytest.param(0, 208, 10_000, id="none"),
        pytest.param(1_000_000, 200 * MIB, 10_000, id="small ones"),
        pytest.param(1_000, 200 * MIB, 10, id="of 200 KiB"),
        pytest.param(4, 80 * MIB, 1, id="of 20 MiB"),
    ],
)
def test_a_page_is_of_some_mebibytes(count: int, size: int, page: int) -> None:
    assert IndexSource(Cluster("http://localhost:9200"), "things", 1, count, size).page == page

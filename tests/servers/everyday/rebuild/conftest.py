"""What tests of rebuilds share: a pipeline with a follower of each kind, and a view that two of them hold."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.servers.everyday.rebuild.rebuilding import ALERTS, MADE, VIEWS
from tests.support.cdc_inprocess import lend_bootstrapped
from tests.support.parts.pipelines import MakePipeline, Pipeline


@pytest.fixture
def pipeline(
    left: list[Pipeline], make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession
) -> Iterator[Pipeline]:
    def make() -> Pipeline:
        made = make_shared_pipeline(*MADE, tables=("public.things", "public.searches"))
        alerts = ALERTS.replace("URL", made.servers.values.search_url)
        made.configure("followers:\n", f"{VIEWS}{alerts}")
        made.configure("    kind: search\n", "    kind: search\n    tables: [public.things, shop.sums]\n")
        made.configure("    kind: latest\n", "    kind: latest\n    tables: [public.things, shop.sums]\n")
        return made

    yield from lend_bootstrapped(left, spark, make)

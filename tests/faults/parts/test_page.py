"""The page while one part after the other is away: it says which, and that it is back, without a reload."""

import pytest
from pyspark.sql import SparkSession

from cdc.local.endpoints import Service
from tests.servers.everyday.test_serve import serving
from tests.support.cdc_inprocess import bootstrap
from tests.support.parts.pipelines import MakePipeline
from tests.support.serve.browser import Browser, browser, chromium

__all__ = ["browser", "chromium"]

pytestmark = [pytest.mark.timeout(900), pytest.mark.further]
TOLD = {
    Service.SEARCH: "search does not answer",
    Service.CONNECT: "The capture does not answer",
    Service.KAFKA: "Kafka does not answer",
    Service.POSTGRES: "Postgres",
}


def test_each_part_that_goes_is_named_and_comes_back(
    make_pipeline: MakePipeline, spark: SparkSession, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",))
    pipeline.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
    pipeline.set_environ(monkeypatch)
    bootstrap(pipeline, spark)
    with serving(pipeline, pipeline.config) as (address, token):
        browser.open(address + token)
        browser.wait("document.title.startsWith('●')", "all is current", 60)
        for part, told in TOLD.items():
            with pipeline.servers.without(part):
                problems = "document.querySelector('#problems').innerText"
                browser.wait(f"{problems}.includes({told!r}) && {problems}.includes('does not answer')", told, 60)
                assert browser.text("#live").startswith("live")
            browser.wait("document.title.startsWith('●')", f"{part} is back", 120)
        browser.go("about:blank")

"""`cdc serve` on the real parts: what is shown while they work, while one is gone, and after a verb."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from pyspark.sql import SparkSession

from cdc.run.read.tokens import take_token, wait_for_token
from cdc.serve.serve import ServeOptions, serve
from cdc.sinks.search.settings import SearchSettings
from cdc.torture.proxy import Proxy, open_proxy
from tests.support.cdc_inprocess import bootstrap, following
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.serve.browser import Browser, browser, chromium
from tests.support.waiting import until

__all__ = ["browser", "chromium"]

VALUE = "canary-of-a-row"
MADE = (
    "CREATE TABLE things (id int PRIMARY KEY, note text)",
    f"INSERT INTO things SELECT n, '{VALUE}' FROM generate_series(1, 5) n",
)


@contextmanager
def serving(pipeline: Pipeline, config: Path) -> Iterator[tuple[str, str]]:
    """The page is served meanwhile: its address, and the fragment with the token."""
    said: list[str] = []
    servers: list[uvicorn.Server] = []
    options = ServeOptions(port=0, every_seconds=0.5, acts=True, file=config)
    arguments = (pipeline.opened(), options, said.append, servers.append)
    thread = threading.Thread(target=serve, args=arguments, daemon=True)
    thread.start()
    until(lambda: bool(servers) and servers[0].started, "the page is served")
    address, _, token = said[0].removeprefix("the page: ").partition("#")
    # before the first look a page is told so (503), which its console notes
    until(lambda: httpx.get(f"{address}status.json").is_success, "the pipeline was looked at")
    yield address, f"#{token}"
    servers[0].should_exit = True
    thread.join()


def read_all(address: str) -> str:
    """All that a reader without a token gets, the beginning of the stream with it."""
    paths = ("", "status.json", "metrics", "trace?table=public.things&key=6")
    found = [httpx.get(f"{address}{path}", follow_redirects=True, timeout=60).text for path in paths]
    with httpx.stream("GET", f"{address}events") as stream:
        for piece in stream.iter_text():
            found.append(piece)
            if "snapshot" in piece:
                return "".join(found)
    return ""


@pytest.fixture
def relayed(
    make_shared_pipeline: MakePipeline, quicker: None, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Pipeline, Proxy]]:
    """A pipeline with a copy, and the way to its index."""
    pipeline = make_shared_pipeline(*MADE, tables=("public.things",))
    pipeline.configure("source:\n", "source:\n  heartbeat_seconds: 1\n")
    pipeline.set_environ(monkeypatch)
    search = pipeline.settings.followers["search"]
    assert isinstance(search, SearchSettings)
    url = urlsplit(search.url)
    with open_proxy(url.port, url.hostname or "") as proxy:
        pipeline.configure(url.netloc, f"127.0.0.1:{proxy.port}")
        bootstrap(pipeline, spark)
        yield pipeline, proxy


def cut_search(browser: Browser, proxy: Proxy) -> None:
    with proxy.cut():
        gone = "/search[^]*does not answer/.test(document.querySelector('#path').innerText)"
        browser.wait(gone, "search is gone", 60)
        assert browser.text("#live").startswith("live")
        assert "search does not answer" in browser.text("#problems")
    browser.wait("!document.querySelector('#path').innerText.includes('not answer')", "search is back", 60)


def pause_search(browser: Browser) -> None:
    browser.run("(location.hash = '#follower/search')")
    browser.wait("document.querySelector('#drawer [data-v=pause]')", "the drawer is open")
    browser.click_until(
        "#drawer [data-v=pause]", "document.querySelector('#confirm').open", "the dialog says what it does"
    )
    assert "its stream ends after its present batch" in browser.text("#confirm")
    assert browser.run("document.activeElement.value") == "cancel"
    browser.click("#confirm [data-do=confirm]")
    browser.wait("document.querySelector('#confirm-out').innerText.includes('search is paused')", "it is paused", 60)


def trace_row(browser: Browser) -> None:
    browser.run("(document.querySelector('#trace-form').table.value = 'public.things')")
    browser.run("(document.querySelector('#trace-form').key.value = '6')")
    browser.run("document.querySelector('#trace-form').requestSubmit()")
    browser.wait("document.querySelectorAll('#trace-out li').length >= 5", "the row is traced", 60)
    for place in ("source has it", "lake as in the source", "latest as in the source"):
        assert place in browser.text("#trace-out")


def test_the_page_follows_a_pipeline_through_a_cut_follower_and_a_verb(
    relayed: tuple[Pipeline, Proxy], spark: SparkSession, browser: Browser
) -> None:
    pipeline, proxy = relayed
    with serving(pipeline, pipeline.config) as (address, token):
        browser.open(address + token)
        browser.wait("/things[^]*5/.test(document.querySelector('#tables').innerText)", "the rows are counted")
        with following(pipeline, spark):
            pipeline.run(f"INSERT INTO things SELECT n, '{VALUE}' FROM generate_series(6, 9) n")
            assert wait_for_token(pipeline.opened(), "latest", take_token(pipeline.connection), 60)
            browser.wait("document.title.startsWith('●')", "all is current", 60)
            cut_search(browser, proxy)
            pause_search(browser)
        trace_row(browser)
        shown = read_all(address)
        for known in ("public.things", "cdc_up{", '"as in the source"'):
            assert known in shown
        for secret in (VALUE, *pipeline.environ.values(), token.removeprefix("#token=")):
            assert secret not in shown
        assert browser.complaints() == []
        browser.go("about:blank")

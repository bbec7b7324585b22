"""The page's files: few requests, few bytes, kept by a browser until there is another."""

import gzip

import httpx

from cdc.serve.bundle import STATIC, bundle_script, bundle_style
from cdc.serve.page import Page
from cdc.serve.publisher import Publisher
from cdc.serve.words import parse_time
from tests.support.serve.live_site import LiveSite
from tests.support.serve.samples import healthy

MOST_BYTES = 55_000


def test_all_of_the_page_is_few_bytes_on_the_way() -> None:
    publisher, document = Publisher(), healthy()
    publisher.publish(document)
    page = Page("shop", (), traces=True).render(publisher.current, parse_time(document["at"]), may_act=False)
    vendored = (STATIC / "vendor" / "uPlot.iife.min.js").read_bytes()
    pieces = [page.encode(), bundle_script().text, bundle_style().text, vendored]
    assert sum(len(gzip.compress(piece, 9)) for piece in pieces) < MOST_BYTES
    # nothing else is asked for
    assert page.count(' src="') == 2
    assert page.count('rel="stylesheet"') == 1


def test_files_are_named_by_their_content_and_kept() -> None:
    site = LiveSite()
    try:
        for file in (bundle_script(), bundle_style()):
            for encoding in ("gzip", "identity"):
                answer = httpx.get(f"{site.url}static/{file.name}", headers={"Accept-Encoding": encoding})
                assert answer.content == file.text
                assert "immutable" in answer.headers["Cache-Control"]
                assert answer.headers["Content-Type"].startswith(file.media_type)
                assert answer.headers.get("Content-Encoding", "identity") == encoding
    finally:
        site.kill()


def test_comments_and_modules_are_not_in_it() -> None:
    text = bundle_script().text.decode()
    assert "/**" not in text
    assert "import " not in text

"""Who is let in: names, pages of other origins, the token; and what each answer forbids."""

import json
from collections.abc import Iterator

import httpx
import pytest

from cdc.serve.guard import LOOPBACK, Door
from cdc.serve.tokens import Token
from tests.support.serve.browser import Browser, browser, chromium
from tests.support.serve.live_site import LiveSite
from tests.support.serve.samples import healthy

__all__ = ["browser", "chromium"]

TOKEN = Token("canary-token-7f3a")
PATHS = ("", "status.json", "static/page/main.js", "session", "no-such-path")


@pytest.fixture(scope="module")
def acting() -> Iterator[LiveSite]:
    with LiveSite(Door(LOOPBACK, TOKEN, acts=True), verbs=("restart",)) as site:
        site.publish(healthy())
        yield site


@pytest.fixture(scope="module")
def public() -> Iterator[LiveSite]:
    with LiveSite(Door(LOOPBACK, TOKEN, is_public=True)) as site:
        site.publish(healthy())
        yield site


@pytest.mark.parametrize("path", PATHS)
def test_another_name_is_refused(path: str, acting: LiveSite) -> None:
    """Another's name that points here: DNS rebinding."""
    for host in ("evil.example", f"evil.example:{acting.port}", "127.0.0.1.evil.example", "[::1", ""):
        answer = httpx.get(acting.url + path, headers={"Host": host})
        assert answer.status_code in {400, 421}, host


@pytest.mark.parametrize("path", PATHS)
def test_each_answer_forbids_scripts_of_others_and_frames(path: str, acting: LiveSite) -> None:
    headers = httpx.get(acting.url + path).headers
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == ("no-cache" if path.startswith("static/") else "no-store")


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_a_change_that_another_page_asks_for_is_refused(origin: str | None, acting: LiveSite) -> None:
    headers = {"Origin": origin} if origin else {}
    answer = httpx.post(f"{acting.url}session", headers=headers, content=json.dumps({"token": TOKEN.text}))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["status.json", "events", "trace", "metrics"])
def test_another_page_gives_this_server_no_work(path: str, acting: LiveSite) -> None:
    for site in ("cross-site", "same-site"):
        assert httpx.get(acting.url + path, headers={"Sec-Fetch-Site": site}).status_code == 403
    # a link to the page is no request of another page's script
    assert httpx.get(acting.url, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"token": 1}', b'{"token": ""}', b'{"token": "canary"}', b"\xff"])
def test_a_wrong_token_opens_nothing(body: bytes, acting: LiveSite) -> None:
    answer = httpx.post(f"{acting.url}session", headers={"Origin": acting.url.rstrip("/")}, content=body)
    assert answer.status_code == 403
    assert TOKEN.text not in answer.text


def test_the_token_of_the_address_becomes_a_cookie_that_no_script_reads(acting: LiveSite, browser: Browser) -> None:
    browser.open(acting.url)
    assert "reads only" in browser.text("#foot")
    browser.open(f"{acting.url}#token={TOKEN.text}")
    browser.wait("document.querySelector('#foot').textContent.includes('may act')", "the page may act")
    assert browser.run("location.hash") == ""
    assert browser.run("document.cookie") == ""
    (cookie,) = browser.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"]) == (True, "Strict", TOKEN.cookie)
    # the next visit needs no token
    browser.open(acting.url)
    assert "may act" in browser.text("#foot")
    assert browser.complaints() == []


def test_where_others_reach_the_address_nothing_is_read_without_the_token(public: LiveSite, browser: Browser) -> None:
    for path in ("status.json", "events"):
        answer = httpx.get(public.url + path)
        assert (answer.status_code, "token" in answer.text) == (403, True)
        assert httpx.get(public.url + path, headers={"Authorization": "Bearer canary"}).status_code == 403
    bearer = {"Authorization": f"Bearer {TOKEN.text}"}
    assert httpx.get(f"{public.url}status.json", headers=bearer).status_code == 200
    door = httpx.get(public.url)
    assert door.status_code == 401
    assert "current" not in door.text
    browser.go(public.url)
    assert "Open the address with the token" in browser.text("main")
    browser.complaints()
    browser.go(f"{public.url}#token={TOKEN.text}")
    browser.run("location.reload()")
    browser.wait("document.querySelector('#verdict')?.innerText.includes('Everything is current')", "the page is shown")


def test_a_page_whose_token_is_no_more_the_servers_leads_to_the_door(browser: Browser) -> None:
    with LiveSite(Door(LOOPBACK, TOKEN, is_public=True)) as site:
        site.publish(healthy())
        browser.go(f"{site.url}#token={TOKEN.text}")
        # by its script: the verdict is in the HTML already
        browser.wait("document.querySelector('#live')?.textContent.length > 0", "it is shown")
        site.kill()
        site.door = Door(LOOPBACK, Token("another-token-9c1e"), is_public=True)
        site.start()
        browser.wait("document.body.innerText.includes('Open the address with the token')", "it says what to do")


def test_no_answer_has_the_token(acting: LiveSite) -> None:
    cookies = {"cdc_session": TOKEN.cookie}
    for path in PATHS:
        answer = httpx.get(acting.url + path, cookies=cookies)
        assert TOKEN.text not in answer.text
        assert TOKEN.text not in str(answer.headers)
    assert TOKEN.text not in repr(TOKEN)

"""The page in a real Chromium: each state by its words, each key, sizes and themes, and what happens to a server."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx
import pytest

from cdc.serve.words import format_bytes, format_span, parse_time
from tests.support.serve.browser import ENTER, ESCAPE, PHONE, Browser, browser, chromium
from tests.support.serve.live_site import LiveSite
from tests.support.serve.samples import SAMPLES, healthy, incident, many, silent, two_tables

__all__ = ["browser", "chromium"]

VERDICT, PATH, PROBLEMS = "#verdict", "#path", "#problems"


@pytest.fixture(scope="module")
def shared_site() -> Iterator[LiveSite]:
    with LiveSite() as live:
        yield live


@pytest.fixture
def site(shared_site: LiveSite, browser: Browser) -> Iterator[LiveSite]:
    yield shared_site
    # the policy of the page was kept, and no script failed
    assert browser.complaints() == []


def show(site: LiveSite, browser: Browser, document: dict[str, Any], more: str = "") -> None:
    site.publish(document)
    site.stand_at(parse_time(document["at"]))
    browser.open(site.url + more)


SAID = {
    "incident": {
        VERDICT: ["public.invoices is stopped, and the slot is full in 3 h 2 min"],
        PROBLEMS: [
            "3 h 2 min left until 06:15",
            "cdc bootstrap --again public.invoices",
            "search was last verified 31 h",
        ],
        PATH: ["slot full in 3 h 2 min", "10 min behind catching up", "3 views SQL, in the lake 21 s at most"],
        "#slot": ["3 h 2 min", "It keeps 41.2 GiB of 64 GiB", "Held by pid 41822"],
        "#followers": ["behind catching up", "186,620 changes", "14 min", "nothing to do"],
        "#tables": ["stopped public.invoices", "about 43 %, 80 min left", "3 keys held (7 messages)"],
        "#letters": ["7 messages not applied; they hold 3 keys", "payload is not JSON"],
        "#verification": ["lake equal 316.5 M rows", "8 of 8 tables"],
        "#timeline": ["Sat 14 Mar", "02:31 public.invoices stopped", "Fri 13 Mar"],
        "#nav": ["Now 5", "Tables 1 12", "Dead letters 7"],
    },
    "healthy": {
        VERDICT: ["Everything is current"],
        PATH: ["+0.4 s", "search OpenSearch index 2.0 s p99 3.6 s"],
        "#slot": ["not filling", "and moves on with the capture"],
        "#letters": ["None. Every message was applied."],
        "#live": ["live"],
    },
    "still": {
        VERDICT: ["The capture stands still since 02:48:05"],
        PATH: [
            "the cause cdc-shop stands still says it runs, task 0 running",
            "waits for capture",
            "waits for the log",
        ],
        "#followers": ["as of 02:48 waits for the log"],
    },
    "paused": {
        VERDICT: ["The capture is paused"],
        PROBLEMS: ["cdc resume capture lets it go on", "cdc resume capture"],
        PATH: [
            "the cause cdc-shop paused by somebody in Kafka Connect",
            "waits for capture",
            "search OpenSearch index paused",
        ],
        "#followers": ["paused"],
    },
    "failed": {
        VERDICT: ["The capture failed"],
        PROBLEMS: ["connector cdc-shop failed: the server certificate has expired", "cdc bootstrap"],
        PATH: [
            "the cause cdc-shop failed the server certificate has expired",
            "latest compacted topics does not go on",
        ],
        "#followers": ["does not go on"],
    },
    "behind": {
        VERDICT: ["search is behind by 48 min"],
        PATH: ["search OpenSearch index 48 min behind falling behind"],
        "#followers": ["7,121 changes", "96 → 40 changes a second"],
    },
    "silent": {
        VERDICT: ["OpenSearch does not answer since 03:06:12"],
        PATH: ["search OpenSearch index does not answer since 03:06"],
        "#followers": ["98,000 changes"],
    },
    "new": {
        VERDICT: ["Nothing is captured yet"],
        PROBLEMS: ["Start it", "cdc doctor", "done"],
        PATH: ["not set up", "no topics yet", "not filled yet"],
        "#tables": ["no copy yet", "waits for its copy"],
        "#views": ["No views. A view is one SELECT"],
        "#verification": ["Not verified yet"],
        "#timeline": ["Nothing has happened yet"],
    },
}


@pytest.mark.parametrize("name", SAID)
def test_each_state_has_its_words(name: str, site: LiveSite, browser: Browser) -> None:
    show(site, browser, SAMPLES[name]())
    for selector, sentences in SAID[name].items():
        text = browser.text(selector)
        for sentence in sentences:
            assert sentence in text, selector
    assert browser.title().endswith("· shop")
    assert ("Start it" in browser.text(PROBLEMS)) == (name == "new")


LEAVES = """(([...root.querySelectorAll(%s)]).filter((e) => !e.children.length)
    .map((e) => `${e.tagName} ${e.getAttribute('class') ?? ''} ${e.textContent.trim()}`.trim()))"""


def test_the_first_html_says_what_the_script_paints(site: LiveSite, browser: Browser) -> None:
    """What a reader sees before any script runs stays as it is, in words, elements and shapes."""
    show(site, browser, incident())
    first = json.dumps(httpx.get(site.url).text)
    for selector in ("#verdict *", "#path *", "#problems :is(.what, .hurts, .why, pre)"):
        leaves = LEAVES % json.dumps(selector)
        before = browser.run(f"((root) => {leaves})(new DOMParser().parseFromString({first}, 'text/html'))")
        assert before == browser.run(f"((root) => {leaves})(document)")
        assert before


def test_durations_and_sizes_are_written_alike_by_server_and_page(site: LiveSite, browser: Browser) -> None:
    show(site, browser, healthy())
    browser.run("import('/static/page/words.js').then((words) => { window.words = words; })")
    browser.wait("window.words", "the words are loaded")
    spans = [0, 0.04, 9.94, 9.95, 40, 119.4, 119.5, 120, 7199, 7200, 86400, 172_799, 172_800, 864_000, 8.6e6]
    assert browser.run(f"{spans}.map(window.words.span)") == list(map(format_span, spans))
    sizes = [0, 512, 1023, 1024, 4813, 38 * 2**20, 99.95 * 2**20, 64 * 2**30, 2**42]
    assert browser.run(f"{sizes}.map(window.words.bytes)") == list(map(format_bytes, sizes))


def test_a_part_that_nobody_looked_at_is_not_known(site: LiveSite, browser: Browser) -> None:
    document = silent()
    document["parts"]["log"]["checked_at"] = document["followers"]["search"]["checked_at"]
    show(site, browser, document)
    assert "not known; last looked 6 min ago" in browser.text(PATH)
    # what does not answer stays that, however long ago it was asked
    assert "does not answer" in browser.text(PATH)


def test_a_dead_watch_makes_all_of_it_last_known(site: LiveSite, browser: Browser) -> None:
    show(site, browser, healthy())
    # the beat goes on, and says what time it is by the document's clock
    site.stand_at(parse_time(healthy()["at"]) + timedelta(seconds=3600))
    browser.wait("document.title.startsWith('? not live')", "the page says that it is not live")
    assert "cdc serve answers, but has not looked at the pipeline since 03:12:40 UTC" in browser.text("#link")
    assert browser.text(VERDICT).startswith("Last known, at 03:12:40: Everything is current")
    browser.open(site.url)
    assert "has not looked at the pipeline since 03:12:40 UTC" in browser.text("#link")


def test_before_the_first_look_the_page_says_so_and_waits(browser: Browser) -> None:
    with LiveSite() as site:
        browser.go(site.url)
        assert browser.text(VERDICT).startswith("Not looked yet")
        site.kill()
        browser.wait("document.querySelector('#link').innerText.includes('does not answer')", "it is cut off")
        site.start()
        site.publish(two_tables())
        browser.wait("document.title === '● Everything is current · shop'", "it is shown")
        assert "2 tables; what needs you first" in browser.text("#tables-sub")


def test_a_server_that_dies_is_told_and_one_that_comes_back_is_shown(browser: Browser) -> None:
    with LiveSite() as site:
        show(site, browser, healthy())
        site.kill()
        browser.wait("document.documentElement.hasAttribute('data-old')", "the page says that it is cut off")
        assert "cdc serve does not answer" in browser.text("#link")
        assert browser.text(VERDICT).startswith("Last known, at 03:12:40: Everything is current")
        assert browser.title() == "? not live · shop"
        site.start()
        site.publish(incident())
        browser.wait("!document.documentElement.hasAttribute('data-old')", "the page is live again")
        assert "public.invoices is stopped" in browser.text(VERDICT)


def test_a_slot_above_its_budget_is_told_with_what_follows(site: LiveSite, browser: Browser) -> None:
    document = incident()
    document["slot"] |= {"safe_bytes": -5, "limited_by": "source.slot_budget.max_wal_bytes", "policy": "drop"}
    show(site, browser, document)
    told = browser.text("#slot")
    for words in ("above its limit", "64 GiB (source.slot_budget.max_wal_bytes)", "cdc follow drops it unless it"):
        assert words in told


def test_patches_change_what_they_name_and_keep_what_is_open(site: LiveSite, browser: Browser) -> None:
    document = incident()
    show(site, browser, document)
    browser.run("document.querySelectorAll('.problem')[1].open = true")
    browser.run("document.querySelector('.rowname').focus()")
    document = deepcopy(document)
    document["followers"]["alerts"] |= {"state": "ok", "word": "current", "changes_waiting": 0}
    del document["followers"]["alerts"]["trend"]
    del document["problems"]["letters:public.order_events"]
    document["series"]["slot_bytes"].append(7)
    site.publish(document)
    browser.wait("document.querySelectorAll('.problem').length === 4", "the problem is gone")
    assert "catching up" not in browser.text("#followers")
    script = "document.querySelector('script[type=module]').src"
    browser.run(f"import({script}).then(({{ modules }}) => {{ window.page = modules['state.js'].page; }})")
    browser.wait("window.page?.doc.series.slot_bytes.at(-1) === 7", "the charts have the new point")
    assert browser.run("window.page.doc.series.slot_bytes.length") == 360
    assert browser.run("document.querySelectorAll('.problem')[1].open")
    assert browser.run("document.activeElement.className") == "rowname"
    # the last of them: the document has no problems at all then, not even none
    del document["problems"]
    site.publish(document)
    browser.wait("document.querySelectorAll('.problem').length === 0", "no problem is left")
    assert browser.complaints() == []


def test_two_thousand_tables_have_only_the_visible_rows_in_the_page(site: LiveSite, browser: Browser) -> None:
    show(site, browser, many())
    assert browser.text("#tables-sub") == "2,000 tables; what needs you first, then the busiest"
    assert browser.run("document.querySelectorAll('#grid tbody tr').length") < 60
    assert browser.run("document.querySelector('#grid').getAttribute('aria-rowcount')") == "2001"
    states = browser.run("[...document.querySelectorAll('#grid .c-state')].map((cell) => cell.innerText).slice(0, 12)")
    assert states == ["stopped"] * 3 + ["copying"] * 5 + ["joining"] + ["no copy yet"] * 2 + ["followed"]
    browser.run("document.querySelector('#scroller').scrollTop = 40 * 1500")
    browser.wait(
        "+document.querySelector('#grid tr[aria-rowindex]').getAttribute('aria-rowindex') > 1400", "rows follow"
    )
    browser.press("/", *"nan in:search stopped")
    browser.wait("document.querySelectorAll('#grid tr[data-open]').length === 1", "the filter leaves one row")
    browser.press(ESCAPE)
    browser.click("[data-do=chip][data-v=copying]")
    assert browser.text("#tables-sub") == "5 of 2,000 tables"
    browser.click("[data-do=chip][data-v=all]")
    browser.click("[data-do=sort][data-v=name]")
    assert browser.text("th[aria-sort=ascending]") == "Table"


def test_every_key_does_what_the_list_says(site: LiveSite, browser: Browser) -> None:
    show(site, browser, incident())
    browser.press("j")
    first = "document.activeElement === document.querySelector('.problem summary')"
    assert browser.run(first)
    browser.press("j", "k")
    assert browser.run(first)
    browser.press(ENTER)
    assert not browser.run("document.querySelector('.problem').open")
    browser.press("b")
    assert "1.9 GiB 5A/0412A7F0" in browser.text("#followers")
    browser.press("b", "u")
    assert browser.text("#t-zone") == "Local"
    browser.press("u", "?")
    assert "copy the first remedy" in browser.text("#keys")
    browser.press(ESCAPE, "c")
    browser.wait("document.querySelector('#toast').classList.contains('on')", "a toast says what became of the copy")
    browser.press("p")
    assert "held still" in browser.text("#live")
    browser.press("p", "g", "t")
    browser.wait("scrollY > 500", "the page is at its tables")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "filter"
    browser.press(*"orders", ESCAPE)
    assert browser.run("document.querySelector('#filter').value") == ""


OBJECTS = {
    "table/public.shipments": "a snapshot of the slot is open",
    "table/public.invoices": "which no follower holds as numeric",
    "follower/alerts": "behind by 10 min",
    "part/source": "oldest open transaction",
    "view/shop.customer_card": "cdc views explain shop.customer_card",
}


def test_an_object_has_a_link_of_its_own(site: LiveSite, browser: Browser) -> None:
    first, *others = OBJECTS
    show(site, browser, incident(), f"#{first}")
    assert OBJECTS[first] in browser.text("#drawer")
    for link in others:
        browser.run(f"(location.hash = '#{link}')")
        browser.wait(f"document.querySelector('#drawer').innerText.includes({OBJECTS[link]!r})", f"{link} is shown")
    browser.press(ESCAPE)
    assert not browser.run("document.querySelector('#drawer').open")
    assert browser.run("location.hash") == ""


def test_a_phone_has_no_line_that_is_cut_off(site: LiveSite, browser: Browser) -> None:
    browser.resize(*PHONE)
    show(site, browser, incident())
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    small = "[...document.querySelectorAll('.cmd button')].filter((b) => b.offsetParent && b.offsetWidth < 44).length"
    assert browser.run(small) == 0
    browser.click(".station[data-open='part:source']")
    browser.wait("document.querySelector('#drawer').open", "the sheet is open")


CONTRASTS = """(() => {
  const probe = document.body.appendChild(document.createElement('i'));
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const linear = (v) => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = (name) => {
    probe.style.color = `var(${name})`;
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const low = (ink, ground) => ratio(luminance(ink), luminance(ground)) < 4.5;
  return ['--ink', '--ink2', '--ink3', '--ok', '--now', '--today', '--know', '--busy', '--link']
    .filter((ink) => ['--bg', '--card'].some((ground) => low(ink, ground)));
})()"""
"""Text on its ground: 4.5 : 1 or more. (WCAG 2.2, 1.4.3)"""


def test_every_colour_of_a_text_has_contrast(site: LiveSite, browser: Browser) -> None:
    show(site, browser, incident())
    for is_dark, ground in ((False, "rgb(246, 246, 244)"), (True, "rgb(12, 14, 18)")):
        browser.set_dark(is_dark)
        browser.wait(
            f"getComputedStyle(document.body).backgroundColor === '{ground}'", "the page has the system's theme"
        )
        assert browser.run(CONTRASTS) == []

"""The dialogs: who may open one, what it says, when its button is off, and what becomes of what somebody agrees to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.run.lease import COPIES, Leases
from cdc.serve.guard import LOOPBACK, Door
from cdc.serve.tokens import Token
from cdc.serve.verbs.command import CommandFailedError, run_command
from cdc.serve.verbs.questions import QUESTIONS
from cdc.serve.verbs.runs import Runs
from cdc.serve.verbs.verbs import NAMES, Verbs
from tests.support.serve.browser import Browser, browser, chromium
from tests.support.serve.live_site import LiveSite
from tests.support.serve.samples import incident, silent
from tests.support.waiting import until

__all__ = ["browser", "chromium"]

TOKEN = Token("canary-token-7f3a")
COOKIE = {"cdc_session": TOKEN.cookie}


def pipeline_in(folder: Path) -> Any:
    """As much of a pipeline as the questions ask for: who works on this machine."""

    class Opened:
        leases, lake_name = Leases(folder / "leases"), "lake"

        def reopened(self) -> "Opened":
            return self

        def __enter__(self) -> "Opened":
            return self

        def __exit__(self, *_: object) -> None: ...

    return Opened()


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[LiveSite]:
    door = Door(LOOPBACK, TOKEN, acts=True)
    with LiveSite(
        door, NAMES, lambda publisher: Verbs(pipeline_in(tmp_path), tmp_path / "no.yaml", publisher, door).routes
    ) as site:
        site.publish(incident())
        yield site


@pytest.mark.parametrize("verb", QUESTIONS)
def test_a_question_says_what_and_what_it_costs(verb: str, tmp_path: Path) -> None:
    on = {"rebuild": "shop.bestsellers", "replay": "public.order_events"}.get(verb, "public.orders")
    asked = QUESTIONS[verb](pipeline_in(tmp_path), incident(), on)
    assert asked.check is None
    assert on in asked.title
    assert asked.command.startswith("cdc ")
    assert asked.command.endswith(on)
    assert all((asked.what, asked.cost, asked.stays, asked.button))
    with pytest.raises(ConfigurationError, match=r"there is no no\.such here"):
        QUESTIONS[verb](pipeline_in(tmp_path), incident(), "no.such")


def test_a_copy_is_off_while_it_would_fail(tmp_path: Path) -> None:
    pipeline, document = pipeline_in(tmp_path), incident()
    stopped = QUESTIONS["recopy"](pipeline, document, "public.invoices")
    assert stopped.check is None
    assert "It stops again if its reason still holds: column amount has NaN" in stopped.cost
    assert "9,120,447 rows" in stopped.what[0]
    assert QUESTIONS["recopy"](pipeline, document, "public.shipments").check == "It is copied at present."
    with pipeline.leases.hold(COPIES):
        assert QUESTIONS["recopy"](pipeline, document, "public.orders").check == "Another copy runs on this machine."
    document["parts"]["capture"] |= {"state": "failed", "word": "failed"}
    assert QUESTIONS["recopy"](pipeline, document, "public.orders").check == "cdc-shop: failed. Mend that first."


def test_a_replay_is_off_while_the_lake_is_written(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    with pipeline.leases.hold("lake"):
        check = QUESTIONS["replay"](pipeline, incident(), "public.order_events").check
    assert check is not None
    assert "end it first" in check


def test_nobody_acts_without_the_cookie_or_from_another_page(acting: LiveSite) -> None:
    url, own = f"{acting.url}verbs/verify", {"Origin": acting.url.rstrip("/")}
    assert httpx.get(url).status_code == 403
    assert httpx.post(url, headers=own).status_code == 403
    assert httpx.get(f"{acting.url}runs/1").status_code == 403
    assert httpx.post(url, cookies=COOKIE).status_code == 403
    assert httpx.post(url, cookies=COOKIE, headers={"Origin": "http://evil.example"}).status_code == 403
    assert httpx.get(url, cookies=COOKIE).status_code == 200
    assert httpx.get(f"{acting.url}verbs/format", cookies=COOKIE).status_code == 404
    refused = httpx.get(f"{acting.url}verbs/recopy", params={"on": "--all; rm"}, cookies=COOKIE)
    assert (refused.status_code, refused.json()["error"]) == (409, "there is no --all; rm here → reload the page")


def test_the_dialog_stays_and_says_what_became_of_it(acting: LiveSite, browser: Browser) -> None:
    browser.open(f"{acting.url}#token={TOKEN.text}")
    browser.wait("document.querySelector('.problem [data-do=verb]')", "the page may act")
    browser.click(".problem[open] [data-do=verb]")
    browser.wait("document.querySelector('#confirm').open", "the dialog is open")
    text = browser.text("#confirm")
    for said in ("Copy public.invoices again?", "What happens", "What it costs", "What stays", "cdc bootstrap --again"):
        assert said in text
    assert browser.run("document.activeElement.value") == "cancel"
    browser.click("#confirm [data-do=confirm]")
    # the file that it names is not there
    browser.wait("document.querySelector('#confirm-out').innerText.includes('failed at')", "it says what became of it")
    assert "no.yaml does not exist" in browser.text("#confirm-out")
    assert browser.text("#confirm [value=cancel]") == "Close"
    browser.click("#confirm [value=cancel]")
    browser.run("(location.hash = '#table/public.shipments')")
    browser.wait("document.querySelector('#drawer [data-v=recopy]')", "the drawer is open")
    browser.click("#drawer [data-v=recopy]")
    browser.wait("document.querySelector('#confirm').innerText.includes('It is copied at present.')", "the check fails")
    assert browser.run("document.querySelector('#confirm [data-do=confirm]').disabled")
    assert browser.complaints() == []


def test_a_page_without_a_part_acts_on_the_others(acting: LiveSite, browser: Browser) -> None:
    acting.publish(silent())
    asked = httpx.get(f"{acting.url}verbs/verify", params={"on": "lake"}, cookies=COOKIE).json()
    assert asked["command"] == "cdc verify --follower lake"
    assert asked["check"] is None


def test_the_same_verb_runs_once_at_a_time() -> None:
    runs, going = Runs(), subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    first = runs.begin("verify", "lake", lambda: [f"ended with {going.wait()}"])
    with pytest.raises(PreconditionError, match="verify lake runs already"):
        runs.begin("verify", "lake", list)
    runs.begin("verify", "search", list)
    going.communicate(b"\n")
    until(lambda: (found := runs.find(first.id)) is not None and bool(found.ok), "the first has ended")
    assert runs.begin("verify", "lake", list).id == 3


def test_a_bug_of_a_verb_is_said_and_ends_nothing() -> None:
    runs = Runs()
    run = runs.begin("verify", "", lambda: [str(1 // 0)])
    until(lambda: (found := runs.find(run.id)) is not None and found.ok is False, "it has ended")
    found = runs.find(run.id)
    assert found is not None
    assert "a bug of cdc" in found.lines[0]


def test_a_verdict_names_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = {"public.a": {"verdict": "equal"}, "public.b": {"verdict": "different", "keys": ["canary"]}}
    ended = SimpleNamespace(
        returncode=5, stdout=json.dumps({"followers": {"lake": verdicts}}), stderr="error: keys canary differ\n"
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    assert run_command(Path("cdc.yaml"), "cdc verify") == ["lake: 1 of 2 equal", "lake: public.b different"]
    ended.returncode, ended.stderr = 3, "warning: x\nerror: it does not run → start it\n"
    with pytest.raises(CommandFailedError, match=r"^error: it does not run → start it$"):
        run_command(Path("cdc.yaml"), "cdc verify")

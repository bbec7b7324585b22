"""Kafka Connect's answers as values, and a connector's state made of them."""

import json
from collections.abc import Callable

import httpx
import pytest

from cdc.connect.capture.connect_client import ConnectClient, split_login
from cdc.connect.capture.connector import restart
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.core.errors import CdcError, ConfigurationError, PreconditionError, UnreachableError
from cdc.run.health.trouble import describe_trouble
from tests.support.parts.ports import free_port

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: tolerance exceeded\n\tat A.b(A.java:1)\nCaused by: X: slot gone"
)
RUNNING = {"state": "RUNNING", "worker_id": "w"}
FAILED = {"id": 0, "state": "FAILED", "worker_id": "w", "trace": TRACE}


def client(code: int, answer: object) -> ConnectClient:
    return answering(lambda _: httpx.Response(code, json=answer))


def answering(answer: Callable[[httpx.Request], httpx.Response]) -> ConnectClient:
    made = ConnectClient("http://connect")
    made._http = httpx.Client(base_url="http://connect", transport=httpx.MockTransport(answer))
    return made


def test_a_failed_task_gives_its_innermost_cause() -> None:
    status = {"name": "c", "connector": RUNNING, "tasks": [FAILED], "type": "source"}
    assert look_up(client(200, status), "c") == ConnectorState("c", "RUNNING", ("FAILED",), "X: slot gone")


def test_an_unknown_connector_has_no_state() -> None:
    assert look_up(client(404, {"error_code": 404, "message": "no"}), "c") == ConnectorState("c", None)


def test_a_connector_made_a_moment_ago_is_there_before_its_status() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_status = request.url.path.endswith("/status")
        return httpx.Response(404, json={"message": "No status found"}) if is_status else httpx.Response(200, json={})

    state = look_up(answering(answer), "c")
    assert (state.state, describe_trouble(state)) == ("UNASSIGNED", None)


def test_a_connector_without_a_status_is_not_restarted() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_known = request.url.path == "/connectors/c/config"
        return httpx.Response(200, json={}) if is_known else httpx.Response(404, json={"message": "no status"})

    assert not restart(answering(answer), "c", whole=True)
    with pytest.raises(CdcError, match=r"has no /connectors/c/restart"):
        restart(client(404, {"message": "no connector"}), "c", whole=True)


def test_a_validation_gives_a_sentence_for_each_error() -> None:
    value = {"name": "slot.name", "value": None, "errors": ["is taken"], "visible": True}
    answer = {"name": "c", "error_count": 1, "configs": [{"definition": {}, "value": value}]}
    assert client(200, answer).problems({"connector.class": "c"}) == ["slot.name: is taken"]


def test_a_refusal_names_connect_s_reason() -> None:
    with pytest.raises(PreconditionError, match="refuses /connectors/c/stop: it is busy"):
        client(500, {"error_code": 500, "message": "it is busy\nmore"}).stop("c")


@pytest.mark.parametrize("answer", [json.dumps("login"), {"connector": 1}])
def test_another_server_s_json_is_reported_as_such(answer: object) -> None:
    with pytest.raises(UnreachableError, match=r"is connect\.url that of Kafka Connect"):
        look_up(client(200, answer), "c")


@pytest.mark.parametrize("login", ["me:canary", "me:can%2Fary", "canary"])
def test_a_password_in_the_url_is_sent_and_not_shown(login: str) -> None:
    port = free_port()
    with ConnectClient(f"http://{login}@127.0.0.1:{port}/") as made, pytest.raises(UnreachableError) as failed:
        made.status("c")
    assert f"http://127.0.0.1:{port} does not answer" in str(failed.value)
    assert "can" not in str(failed.value)


def test_a_login_in_the_url_is_basic_authentication() -> None:
    assert split_login("https://me:a%2Fb%40c@host:1/x/") == ("https://host:1/x", ("me", "a/b@c"))
    assert split_login("http://host:1") == ("http://host:1", None)


@pytest.mark.parametrize("url", ["http://me:can/ary@host", "http://me:12/ary@host", "http://me:canary@host:x"])
def test_a_url_with_an_unescaped_password_is_refused_unshown(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^connect\.url (has|is)") as refused:
        ConnectClient(url)
    assert "ary" not in str(refused.value)

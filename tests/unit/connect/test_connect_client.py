"""Kafka Connect's answers as values, and a connector's state made of them."""

import json

import httpx
import pytest

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import ConnectorState, look_up
from cdc.core.errors import PreconditionError, UnreachableError

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: tolerance exceeded\n\tat A.b(A.java:1)\nCaused by: X: slot gone"
)
RUNNING = {"state": "RUNNING", "worker_id": "w"}
FAILED = {"id": 0, "state": "FAILED", "worker_id": "w", "trace": TRACE}


def client(code: int, answer: object) -> ConnectClient:
    made = ConnectClient("http://connect")
    made._http = httpx.Client(
        base_url="http://connect", transport=httpx.MockTransport(lambda _: httpx.Response(code, json=answer))
    )
    return made


def test_a_failed_task_gives_its_innermost_cause() -> None:
    status = {"name": "c", "connector": RUNNING, "tasks": [FAILED], "type": "source"}
    assert look_up(client(200, status), "c") == ConnectorState("c", "RUNNING", ("FAILED",), "X: slot gone")


def test_an_unknown_connector_has_no_state() -> None:
    assert look_up(client(404, {"error_code": 404, "message": "no"}), "c") == ConnectorState("c", None)


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

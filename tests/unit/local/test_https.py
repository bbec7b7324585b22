"""Our HTTPS clients believe whom the system believes, and whom the environment names; nobody else."""

import sys
from pathlib import Path

import pytest

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.fixed_properties import CONNECTOR_CLASS
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.https import REMEDY, distrust, tls_context
from tests.unit.local.https_server import Answers, authority_file, https, known_by_nobody

__all__ = ["https"]


@pytest.fixture
def connect(https: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answers:
    """A Kafka Connect that answers by HTTPS, on a machine that does not know its authority."""
    https.put("/connector-plugins", (200, b'[{"class": "%s"}]' % CONNECTOR_CLASS.encode()))
    known_by_nobody(monkeypatch, tmp_path)
    return https


def plugins(connect: Answers) -> set[str]:
    with ConnectClient(connect.url) as client:
        return client.plugins()


def test_an_unknown_authority_is_refused_in_one_line(connect: Answers) -> None:
    with pytest.raises(PreconditionError, match=r"certificate of Kafka Connect \S+ is not trusted") as refused:
        plugins(connect)
    assert refused.value.remedy == f"name its authority in connect.ca_file, or {REMEDY}"
    assert connect.asked == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_file_that_the_environment_names_is_believed(
    connect: Answers, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, authority_file(connect, tmp_path))
    assert plugins(connect) == {CONNECTOR_CLASS}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the store is the system's own, not a file")
def test_the_system_s_store_is_believed(connect: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The store stands in for that of a machine: the file where truststore looks for one is the authority's."""
    monkeypatch.setattr("truststore._openssl._CA_FILE_CANDIDATES", [authority_file(connect, tmp_path)])
    assert plugins(connect) == {CONNECTOR_CLASS}


def test_a_file_that_is_none_is_left_to_the_handshake(
    connect: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("")
    for variable, value in (("SSL_CERT_FILE", "nowhere.pem"), ("REQUESTS_CA_BUNDLE", str(tmp_path / "empty.pem"))):
        monkeypatch.setenv(variable, value)
    tls_context()
    with pytest.raises(PreconditionError, match="is not trusted"):
        plugins(connect)


def test_whoever_stands_before_kafka_connect_answers_in_its_place(
    https: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority_file(https, tmp_path))
    https.put("/connector-plugins", (200, b"<html>Please log in</html>"))
    with pytest.raises(UnreachableError, match=r"/connector-plugins answers with something else than JSON"):
        plugins(https)


def test_only_certificates_are_a_matter_of_trust() -> None:
    assert distrust(OSError("gone")) is None

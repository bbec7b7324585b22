"""Where the page listens, by which names, with which token; and what is told where it cannot."""

import sys
from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.serve.serve import ANY_ADDRESS, TOKEN_VARIABLE, ServeOptions, describe_address, find_token, list_names
from cdc.serve.server import open_socket
from cdc.serve.tokens import Token

LONG = "a-token-of-an-operator"


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_a_token_only_to_act(host: str) -> None:
    assert find_token(ServeOptions(host)) is None
    assert find_token(ServeOptions(host, acts=True)) is not None


@pytest.mark.parametrize("host", [*ANY_ADDRESS, "192.0.2.7", "shop.example"])
def test_another_address_needs_a_token_to_read(host: str) -> None:
    assert find_token(ServeOptions(host)) is not None


def test_the_token_of_the_environment_is_taken_and_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ServeOptions("192.0.2.7", acts=True)
    monkeypatch.setenv(TOKEN_VARIABLE, LONG)
    token = find_token(options)
    assert token == Token(LONG)
    said = describe_address(options, 8474, token)
    assert LONG not in "".join(said)
    assert said[0] == "the page: http://192.0.2.7:8474/#token=$CDC_SERVE_TOKEN"
    assert "this is HTTP" in said[-1]
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(ConfigurationError, match="fewer than 16 characters"):
        find_token(options)


def test_it_is_asked_by_its_own_names_and_those_given() -> None:
    assert list_names(ServeOptions(names=("CDC.example",))) == {"127.0.0.1", "::1", "localhost", "cdc.example"}
    assert describe_address(ServeOptions("::1"), 1, None)[0] == "the page: http://[::1]:1/"


def test_a_port_that_is_taken_or_an_address_of_others_is_told_in_one_line() -> None:
    with open_socket("127.0.0.1", 0) as taken, pytest.raises(PreconditionError, match="cannot listen at"):
        open_socket("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(PreconditionError, match="cannot listen at"):
        open_socket("192.0.2.7", 0)
    with pytest.raises(ConfigurationError, match=r"no\.such\.invalid is no address"):
        open_socket("no.such.invalid", 0)


def test_without_its_packages_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", str(tmp_path / "cdc.yaml")]
    monkeypatch.setenv("CDC_SOURCE_PASSWORD", "x")
    assert main([*config, "init", "--name", "shop", "--table", "public.orders"]) == 0
    monkeypatch.setitem(sys.modules, "cdc.serve.serve", None)
    assert main([*config, "serve"]) == ConfigurationError.exit_code
    assert "which is not installed \N{RIGHTWARDS ARROW} pip install 'cdc-toolkit[serve]'" in capsys.readouterr().err

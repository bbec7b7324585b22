"""Every kind of error has a code of its own, and its row in the page, which `cdc errors --markdown` writes."""

from pathlib import Path

import pytest

from cdc.__main__ import main
from cdc.config.errors import InvalidSettingsError
from cdc.core.errors import ConfigurationError, HistoryLostError, code_of
from cdc.run.error_table import HELPS, describe_errors, to_markdown

PAGE = Path(__file__).parents[3] / "cdc/cli/ERRORS.md"


def test_page_is_what_the_errors_are() -> None:
    assert to_markdown() in PAGE.read_text()


def test_codes_are_distinct() -> None:
    rows = describe_errors()
    assert len({row.code for row in rows}) == len(rows) == len(HELPS)
    assert all(row.meaning and row.helps for row in rows)


def test_codes_are_stable() -> None:
    assert HistoryLostError("gone").code == "history-lost"
    # a kind of another room
    assert code_of(InvalidSettingsError) == "configuration"


def test_one_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors", "unreachable"]) == 0
    assert "A server does not answer" in capsys.readouterr().out
    assert main(["errors", "nothing"]) == ConfigurationError.exit_code

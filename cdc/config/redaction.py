"""Writes settings without their secrets: what may be one is not shown, and what came by reference is shown as that."""

import re
from collections.abc import Mapping
from typing import Any, Final

from cdc.config.references import escape
from cdc.core.settings import SettingPath
from cdc.core.table import TableName

REDACTED: Final = "**********"
_KEY: Final = re.compile(
    r"pass|secret|token|credential|jaas|private|keystore|(?:api|access|account).?key", re.IGNORECASE
)
_FOREIGN_KEY: Final = re.compile(rf"{_KEY.pattern}|\bkey\b(?!\.(?:converter|columns))|\bsas\b|signature", re.IGNORECASE)
"""Of settings that others name: Azure's `account.key` and `sas.fixed.token`, say."""
_FOREIGN: Final[frozenset[SettingPath]] = frozenset({("spark", "conf"), ("connect", "overrides")})
"""Blocks whose keys Spark and Debezium name, or users."""
_IN_URL: Final = re.compile(r"(://)[^/@\s]+@")
_WRITTEN_IN_URL: Final = re.compile(r"(://)(?![^:/@\s]*:\$\{[^}]*\}@)[^/@\s]+@")
"""The same where references are not resolved: a password that is one is no secret yet."""
_IN_TEXT: Final = re.compile(rf"((?:{_KEY.pattern})[\w.]*\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)", re.IGNORECASE)
"""A secret in a longer text, such as an option of Java or a query of a URL."""


def redact(value: Any, references: Mapping[SettingPath, str], place: SettingPath = ()) -> Any:
    """Replace secrets in settings as JSON; `references`: path → the text of the file that has references in it."""
    if isinstance(value, dict):
        return {name: redact(item, references, (*place, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [redact(item, references, (*place, index)) for index, item in enumerate(value)]
    if _is_secret(place, value):
        return REDACTED
    if place in references:
        if "${exec:" in references[place]:
            return _IN_TEXT.sub(rf"\g<1>{REDACTED}", references[place])
        return _WRITTEN_IN_URL.sub(rf"\g<1>{REDACTED}@", references[place])
    return escape(_redact_text(value, place)) if isinstance(value, str) else value


def complete_names(references: Mapping[SettingPath, str]) -> dict[SettingPath, str]:
    """The same, with the names of views as complete settings have them."""
    return {
        (place[0], str(TableName.parse(str(place[1]))), *place[2:])
        if place[:1] == ("views",) and place[1:]
        else place: text
        for place, text in references.items()
    }


def _is_secret(place: SettingPath, value: Any) -> bool:
    # by the key's name: a setting that is added later is masked without anybody thinking of it
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    if not isinstance(value, str):
        return False
    # Connect resolves this reference, so it is no secret: shown as it is
    if key in ("password_reference", "mask_secret_reference") and "${" in value:
        return False
    return (_FOREIGN_KEY if place[:2] in _FOREIGN else _KEY).search(key) is not None


def _redact_text(text: str, place: SettingPath) -> str:
    shown = _IN_URL.sub(rf"\g<1>{REDACTED}@", text)
    return _IN_TEXT.sub(rf"\g<1>{REDACTED}", shown) if place[:2] in _FOREIGN else shown

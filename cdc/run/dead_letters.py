"""`cdc dead-letters`: messages that are not applied, looked at, applied after all, or given up."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cdc.columns.decoding.decoder import Decoder
from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.core.table import TableName
from cdc.run.lease import hold_lease
from cdc.run.pipeline import delta_follower
from connect.capture.connector import placeholder
from sinks.lake.follower import DeltaFollower
from sinks.lake.metadata.dead_letters import DeadLetter

MASK: Final = "…"


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key whose changes wait, or a message without one; `places` are those of all its messages, in their order."""

    table: TableName
    key: bytes | None
    reason: str
    places: tuple[str, ...]

    def as_json(self, *, values: bool) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "key": render_text(self.key, values=values),
            "reason": self.reason,
            "messages": list(self.places),
        }


def list_held_keys(settings: PipelineSettings) -> list[HeldKey]:
    """What is held, key by key, in the order of the log."""
    found: dict[tuple[TableName, bytes | None, str], list[DeadLetter]] = {}
    for letter in delta_follower(settings).dead_letters():
        key = letter.message.key
        found.setdefault((letter.table, key, "" if key is not None else letter.location), []).append(letter)
    return [
        HeldKey(table, key, _first_reason(letters), tuple(letter.location for letter in letters))
        for (table, key, _), letters in found.items()
    ]


def _first_reason(letters: Sequence[DeadLetter]) -> str:
    return next((each for each in letters if not each.message.waits), letters[0]).message.refusal.reason


def find_letter(settings: PipelineSettings, place: str) -> DeadLetter:
    """The letter at a place of the log; raises ConfigurationError when there is none."""
    for letter in delta_follower(settings).dead_letters():
        if letter.location == place:
            return letter
    raise ConfigurationError(f"there is no dead letter at {place}", "`cdc dead-letters list` names them")


def render_text(text: bytes | None, *, values: bool) -> str | None:
    """A message, or its key, as it is printed: with `values`, or with their places only.

    What is no JSON is all value.
    """
    if text is None:
        return None
    if values:
        return text.decode(errors="backslashreplace")
    try:
        return msgspec.json.encode(_mask(msgspec.json.decode(text))).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return f"{MASK} ({len(text)} bytes)"


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _mask(each) for name, each in value.items()}
    return [_mask(each) for each in value] if isinstance(value, list) else MASK


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay has done: messages applied, and keys that stay held, each with the reason."""

    applied: int
    stay: tuple[tuple[TableName, bytes, str], ...]


def replay(settings: PipelineSettings, tables: Sequence[TableName]) -> ReplayResult:
    """Apply the letters of these tables, of all where none is named, whose keys can be read by now."""
    with hold_lease(settings, settings.delta[0]):
        follower = delta_follower(settings)
        letters = [letter for letter in follower.dead_letters() if not tables or letter.table in tables]
        return _replay_letters(settings, follower, letters, {})


def drop(settings: PipelineSettings, places: Sequence[str]) -> ReplayResult:
    """Give up what cannot be read of the keys of these messages, and apply what waits behind it."""
    with hold_lease(settings, settings.delta[0]):
        follower = delta_follower(settings)
        letters = follower.dead_letters()
        chosen = [letter for letter in letters if letter.location in places]
        if missing := sorted(set(places) - {letter.location for letter in chosen}):
            raise ConfigurationError(f"there is no dead letter at {missing[0]}", "`cdc dead-letters list` names them")
        follower.drop_letters([letter for letter in chosen if letter.message.key is None])
        given_up: dict[TableName, set[bytes]] = {}
        for letter in chosen:
            if letter.message.key is not None:
                given_up.setdefault(letter.table, set()).add(letter.message.key)
        return _replay_letters(settings, follower, [letter for letter in chosen if letter.table in given_up], given_up)


def _replay_letters(
    settings: PipelineSettings,
    follower: DeltaFollower,
    letters: Sequence[DeadLetter],
    given_up: dict[TableName, set[bytes]],
) -> ReplayResult:
    # those of a stopped table wait for its copy
    waiting = {stop.name: str(stop) for stop in follower.stops()}
    # what lies between such a copy and the position would pass for applied
    waiting |= dict.fromkeys(follower.joining(), "it is in no cut of the lake yet: run `cdc follow` first")
    keys = [(letter.table, letter.message.key) for letter in letters if letter.table in waiting]
    applied, stay = 0, {(name, key): waiting[name] for name, key in keys if key is not None}
    described = {table.name: table for table in follower.tables() if table.name not in waiting}
    with closing(follower):
        for name in sorted({letter.table for letter in letters} & described.keys()):
            decoder = Decoder(described[name], placeholder(settings.pipeline.name))
            found = follower.replay_letters(name, decoder, given_up.get(name, ()))
            applied += len(found.letters)
            stay |= {(name, key): reason for key, reason in found.blocked.items()}
    return ReplayResult(applied, tuple((name, key, reason) for (name, key), reason in stay.items()))

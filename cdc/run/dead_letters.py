"""`cdc dead-letters`: lists, shows, replays and drops the messages that could not be applied."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cdc.columns.decoding.decoder import Decoder
from cdc.connect.capture.debezium_properties import placeholder
from cdc.core.errors import ConfigurationError
from cdc.core.table import TableName
from cdc.core.table_state import Followed, Joining
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.follower import DeltaFollower
from cdc.sinks.lake.metadata.dead_letters import DeadLetter

MASK: Final = "…"


@dataclass(frozen=True, slots=True)
class KeyLetters:
    """The dead letters of one key, or one message without a key. `locations`: of its messages, in log order."""

    table: TableName
    key: bytes | None
    reason: str
    locations: tuple[str, ...]

    def as_json(self, *, values: bool) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "key": render_text(self.key, values=values),
            "reason": self.reason,
            "messages": list(self.locations),
        }


def list_blocked_keys(pipeline: Pipeline) -> list[KeyLetters]:
    """The blocked keys with their messages, in log order."""
    by_key: dict[tuple[TableName, bytes | None, str], list[DeadLetter]] = {}
    for letter in pipeline.lake_follower.letters.all():
        key = letter.message.key
        by_key.setdefault((letter.table, key, "" if key is not None else letter.location), []).append(letter)
    return [
        KeyLetters(table, key, _first_reason(letters), tuple(letter.location for letter in letters))
        for (table, key, _), letters in by_key.items()
    ]


def _first_reason(letters: Sequence[DeadLetter]) -> str:
    # messages that only wait for an earlier one of their key say nothing of the cause
    return next((letter for letter in letters if not letter.message.waits), letters[0]).message.refusal.reason


def find_letter(pipeline: Pipeline, location: str) -> DeadLetter:
    """The dead letter at a location, as in `topic[partition]@offset`. Raises ConfigurationError when there is none."""
    for letter in pipeline.lake_follower.letters.all():
        if letter.location == location:
            return letter
    raise ConfigurationError(f"there is no dead letter at {location}", "`cdc dead-letters list` names them")


def render_text(text: bytes | None, *, values: bool) -> str | None:
    """Render a message or a key for printing; without `values`, each value in its JSON is masked.

    Text that is not JSON is masked as a whole.
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
        return {name: _mask(item) for name, item in value.items()}
    return [_mask(item) for item in value] if isinstance(value, list) else MASK


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The outcome of a replay: how many messages were applied, and the keys still blocked, with reasons."""

    applied: int
    still_blocked: tuple[tuple[TableName, bytes, str], ...]


def replay(pipeline: Pipeline, tables: Sequence[TableName]) -> ReplayResult:
    """Apply dead letters that can be decoded by now; of all tables when `tables` is empty."""
    with pipeline.leases.hold(pipeline.lake_name):
        follower = pipeline.lake_follower
        letters = [letter for letter in follower.letters.all() if not tables or letter.table in tables]
        return _replay_letters(pipeline, follower, letters, {})


def drop(pipeline: Pipeline, locations: Sequence[str]) -> ReplayResult:
    """Drop the undecodable messages of these messages' keys, and apply those that wait behind them.

    Raises ConfigurationError for a location without a dead letter.
    """
    with pipeline.leases.hold(pipeline.lake_name):
        follower = pipeline.lake_follower
        letters = follower.letters.all()
        chosen = [letter for letter in letters if letter.location in locations]
        if missing := sorted(set(locations) - {letter.location for letter in chosen}):
            raise ConfigurationError(f"there is no dead letter at {missing[0]}", "`cdc dead-letters list` names them")
        # nothing waits behind a message without a key
        follower.letters.drop([letter for letter in chosen if letter.message.key is None])
        dropped: dict[TableName, set[bytes]] = {}
        for letter in chosen:
            if letter.message.key is not None:
                dropped.setdefault(letter.table, set()).add(letter.message.key)
        return _replay_letters(pipeline, follower, [letter for letter in chosen if letter.table in dropped], dropped)


def _replay_letters(
    pipeline: Pipeline,
    follower: DeltaFollower,
    letters: Sequence[DeadLetter],
    dropped: dict[TableName, set[bytes]],
) -> ReplayResult:
    # a stopped table's letters wait for its new copy
    waiting = {stop.name: str(stop) for stop in follower.tables.stops()}
    # a table that has not joined lacks the changes up to the position: a replay would mark them as applied
    waiting |= dict.fromkeys(follower.tables.select(Joining), "it is in no cut of the lake yet: run `cdc follow` first")
    keys = [(letter.table, letter.message.key) for letter in letters if letter.table in waiting]
    applied, still_blocked = 0, {(name, key): waiting[name] for name, key in keys if key is not None}
    followed = follower.tables.select(Followed)
    with closing(follower):
        for name in sorted({letter.table for letter in letters} & followed.keys()):
            decoder = Decoder(followed[name].table, placeholder(pipeline.name))
            replayed = follower.letters.replay(name, decoder, dropped.get(name, ()))
            applied += len(replayed.letters)
            still_blocked |= {(name, key): reason for key, reason in replayed.blocked.items()}
    return ReplayResult(applied, tuple((name, key, reason) for (name, key), reason in still_blocked.items()))

"""Every message but a tombstone becomes a change or a refusal with its reason.

The messages are decoded by types made for the table, all at once; only where that fails is the one message looked into
that is to blame.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from cdc.columns.decoding.envelope import (
    CONVERSION_ERRORS,
    DecodedMessage,
    MessageForm,
    RefusedMessageError,
    Source,
    Transaction,
    integers,
)
from cdc.columns.decoding.keyed import KeyedForm
from cdc.columns.decoding.keyless import KeylessForm
from cdc.columns.decoding.rows import RowDecoder
from cdc.columns.netting.changes import Decoded, Messages, RefusedMessage
from cdc.core.refusal import Refusal
from cdc.core.table import Table

_NO_CHANGE = (msgspec.MsgspecError, UnicodeDecodeError, RefusedMessageError)


class _Head(msgspec.Struct, gc=False):
    """What tells where a message belongs, whatever else is wrong with it."""

    source: Source
    transaction: Transaction | None = None


class _Loose(msgspec.Struct, gc=False):
    """A row of whatever columns."""

    after: dict[str, msgspec.Raw] | None = None


class Decoder:
    """Reads the messages of one table; `placeholder` is the connector's `unavailable.value.placeholder`."""

    def __init__(self, table: Table, placeholder: str) -> None:
        self._table = table
        rows = RowDecoder(table, placeholder)
        self._form: MessageForm = KeyedForm(rows) if table.key else KeylessForm(rows)
        self._head = msgspec.json.Decoder(_Head).decode

    def decode(self, messages: Messages) -> Decoded:
        """Decode messages of the table's topic."""
        found, refused = self._parse(messages)
        while True:
            try:
                changes = self._form.changes(found, messages)
            except CONVERSION_ERRORS as error:
                unfit = self._find_unsupported(found, messages)
                if not unfit:
                    raise AssertionError(f"{self._table.name}: no message is to blame") from error
                refused += unfit.values()
                found = [message for message in found if message[0] not in unfit]
                continue
            return Decoded(changes, integers([message[0] for message in found]), tuple(refused))

    def _parse(self, messages: Messages) -> tuple[list[DecodedMessage], list[RefusedMessage]]:
        read = self._form.message
        try:
            return list(map(read, range(len(messages)), messages.key, messages.value, messages.old_key)), []
        except _NO_CHANGE:
            return self._one_by_one(messages)

    def _one_by_one(self, messages: Messages) -> tuple[list[DecodedMessage], list[RefusedMessage]]:
        found, refused = [], []
        for at, (key, value, old_key) in enumerate(zip(messages.key, messages.value, messages.old_key, strict=True)):
            try:
                found.append(self._form.message(at, key, value, old_key))
            except _NO_CHANGE as error:
                refused.append(self._refusal(messages, at, self._explain(error, key, value)))
        return found, refused

    def _find_unsupported(self, found: Sequence[DecodedMessage], messages: Messages) -> dict[int, RefusedMessage]:
        """The messages that hold a value which its column cannot have, by their place, each with its reason."""
        refused = {}
        for message in found:
            try:
                self._form.check(message)
            except RefusedMessageError as error:
                refused[message[0]] = self._refusal(messages, message[0], str(error))
        return refused

    def _explain(self, error: Exception, key: bytes | None, value: bytes) -> str:
        """Half a sentence, without values of the message."""
        if isinstance(error, RefusedMessageError):
            return str(error)
        for what, sent, own in (
            ("its columns", _read_names(value, _Loose, "after"), self._table.column_names),
            ("its key columns", _read_names(key, dict[str, msgspec.Raw]), self._table.key),
        ):
            if sent is not None and own and (told := _describe_difference(what, sent, own)):
                return told
        return f"no change event: {error}"

    def _refusal(self, messages: Messages, at: int, reason: str) -> RefusedMessage:
        refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), reason)
        return messages.refuse(at, refusal, *self._place(messages.value[at]))

    def _place(self, value: bytes) -> tuple[int | None, int | None]:
        """The transaction that it belongs to, and where in there, as far as that can be read."""
        try:
            head = self._head(value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None, None
        return head.source.txId, head.transaction.total_order if head.transaction else None


def _read_names(text: bytes | None, shape: Any, field: str = "") -> list[str] | None:
    """The names in a JSON object, or in its `field`; None where there is no such thing."""
    try:
        found = msgspec.json.decode(text or b"null", type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    found = getattr(found, field) if field else found
    return None if found is None else list(found)


def _describe_difference(what: str, sent: Sequence[str], own: Sequence[str]) -> str | None:
    """How the names that were sent differ from the table's own, if they do."""
    came, went = (", ".join(name for name in a if name not in b) for a, b in ((sent, own), (own, sent)))
    return f"{what} have changed: more [{came}], less [{went}]" if came or went else None

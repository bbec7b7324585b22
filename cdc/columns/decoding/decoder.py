"""The decoder of one table: every message except a tombstone becomes a change or a refusal with its reason.

It decodes all messages at once, by msgspec types made for the table. Only if that fails does it search the messages
that cannot be decoded.
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

# msgspec raises UnicodeDecodeError, no error of its own, for text that is not UTF-8
_NO_CHANGE = (msgspec.MsgspecError, UnicodeDecodeError, RefusedMessageError)


class _Head(msgspec.Struct, gc=False):
    """The transaction of a message whose other fields may not be valid."""

    source: Source
    transaction: Transaction | None = None


class _Loose(msgspec.Struct, gc=False):
    """A row with any columns."""

    after: dict[str, msgspec.Raw] | None = None


class Decoder:
    """Decodes the messages of one table; `placeholder` is the connector's `unavailable.value.placeholder`."""

    def __init__(self, table: Table, placeholder: str) -> None:
        self._table = table
        rows = RowDecoder(table, placeholder)
        self._form: MessageForm = KeyedForm(rows) if table.key else KeylessForm(rows)
        self._head = msgspec.json.Decoder(_Head).decode

    def decode(self, messages: Messages) -> Decoded:
        """Decode messages of the table's topic."""
        decoded, refused = self._parse(messages)
        # ends: each turn but the last takes out at least one message
        while True:
            try:
                changes = self._form.changes(decoded, messages)
            except CONVERSION_ERRORS as error:
                # a whole column failed to convert: find its messages, and convert the others again
                unsupported = self._find_unsupported(decoded, messages)
                if not unsupported:
                    # the same messages would fail again, without end
                    raise AssertionError(f"{self._table.name}: no message is to blame") from error
                refused += unsupported.values()
                decoded = [message for message in decoded if message[0] not in unsupported]
                continue
            return Decoded(changes, integers([message[0] for message in decoded]), tuple(refused))

    def _parse(self, messages: Messages) -> tuple[list[DecodedMessage], list[RefusedMessage]]:
        read = self._form.message
        try:
            return list(map(read, range(len(messages)), messages.key, messages.value, messages.old_key)), []
        except _NO_CHANGE:
            return self._one_by_one(messages)

    def _one_by_one(self, messages: Messages) -> tuple[list[DecodedMessage], list[RefusedMessage]]:
        decoded, refused = [], []
        for at, (key, value, old_key) in enumerate(zip(messages.key, messages.value, messages.old_key, strict=True)):
            try:
                decoded.append(self._form.message(at, key, value, old_key))
            except _NO_CHANGE as error:
                refused.append(self._refusal(messages, at, self._explain(error, key, value)))
        return decoded, refused

    def _find_unsupported(self, decoded: Sequence[DecodedMessage], messages: Messages) -> dict[int, RefusedMessage]:
        """Find the messages with a value that its column cannot hold: place → refused message."""
        refused = {}
        for message in decoded:
            try:
                self._form.check(message)
            except RefusedMessageError as error:
                refused[message[0]] = self._refusal(messages, message[0], str(error))
        return refused

    def _explain(self, error: Exception, key: bytes | None, value: bytes) -> str:
        """Explain a failure as half a sentence, without values of the message: they are a user's data."""
        if isinstance(error, RefusedMessageError):
            return str(error)
        # msgspec names only the first wrong column; an altered table is told better by all of them
        for subject, sent, own in (
            ("its columns", _read_names(value, _Loose, "after"), self._table.column_names),
            ("its key columns", _read_names(key, dict[str, msgspec.Raw]), self._table.key),
        ):
            if sent is not None and own and (difference := _describe_difference(subject, sent, own)):
                return difference
        return f"no change event: {error}"

    def _refusal(self, messages: Messages, at: int, reason: str) -> RefusedMessage:
        refusal = Refusal(messages.topic, int(messages.partition[at]), int(messages.offset[at]), reason)
        return messages.refuse(at, refusal, *self._place(messages.value[at]))

    def _place(self, value: bytes) -> tuple[int | None, int | None]:
        """Read the message's transaction and its number in it; None if that fails."""
        try:
            # by a type of its own: the columns of this message may be anything
            head = self._head(value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None, None
        return head.source.txId, head.transaction.data_collection_order if head.transaction else None


def _read_names(text: bytes | None, shape: Any, field: str = "") -> list[str] | None:
    """Read the names in a JSON object, or in its `field`; None if there is no such object."""
    try:
        document = msgspec.json.decode(text or b"null", type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    names = getattr(document, field) if field else document
    return None if names is None else list(names)


def _describe_difference(subject: str, sent: Sequence[str], own: Sequence[str]) -> str | None:
    """Describe the difference between the sent names and the table's own; None if there is none."""
    added, removed = (", ".join(name for name in a if name not in b) for a, b in ((sent, own), (own, sent)))
    return f"{subject} have changed: more [{added}], less [{removed}]" if added or removed else None

"""bytea: base64 in the log and in documents, hex in Postgres's text."""

import base64
from typing import Final

import pyarrow as pa

from cdc.columns.types.copied_fields import to_strings
from cdc.columns.types.postgres_type import PostgresType, read_each, read_plain
from cdc.columns.types.texts import put_in_quotes
from cdc.core.table import Kind


def _to_json(array: pa.Array) -> pa.Array:
    encoded = [None if value is None else base64.b64encode(value) for value in array.to_pylist()]
    return put_in_quotes(pa.array(encoded, pa.binary()).cast(pa.string()))


BYTES: Final = PostgresType(
    Kind.BYTES,
    names=("bytea",),
    is_out_of_line=True,
    arrow=pa.binary(),
    sent_as=bytes,
    from_log=read_plain(pa.binary()),
    from_text=read_each(lambda text: bytes.fromhex(text.removeprefix("\\x")), pa.binary()),
    from_copy=lambda field, _: to_strings(field, pa.binary()),
    to_json=_to_json,
    index={"type": "binary"},
)

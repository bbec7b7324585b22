"""Rows side by side in bytes: a row is found by its number, and read without its neighbours.

Parquet keeps a column's values together, so that a few rows of a file cost as much as all. Here each row is a record of
fixed width, and its texts lie together in a heap behind::

    record: checksum (8) | nulls | fixed columns | place in the heap (8) | length of each text (4 each)

Every record has a checksum of itself, of its texts and of its number: what differs from what was written is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import shake_128
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.columns.arrays import Integers, Mask

Bytes = npt.NDArray[np.uint8]
CHECKSUM: Final = 8
_PLACE: Final = 8
_LENGTH: Final = 4
_WEIGHTS: Final = np.frombuffer(shake_128(b"cdc: a row in a file of rows").digest(8 * 4096), "<u8") | np.uint64(1)
_NUMBER: Final = np.uint64(0x9E3779B97F4A7C15)


class DamagedRowsError(Exception):
    """A file of rows differs from what was written."""


def is_storable(kind: pa.DataType) -> bool:
    """Whether rows with such a column can be stored so: not lists and structs."""
    return is_text(kind) or fixed_width(kind) is not None


def is_text(kind: pa.DataType) -> bool:
    """Whether values have bytes of any number."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def fixed_width(kind: pa.DataType) -> int | None:
    """How many bytes a value has; None where values differ in that."""
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_primitive(kind) or pa.types.is_decimal128(kind):
        return int(kind.byte_width)
    return None


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The record of rows with these columns."""

    schema: pa.Schema

    @property
    def fixed(self) -> list[pa.Field]:
        return [field for field in self.schema if not is_text(field.type)]

    @property
    def texts(self) -> list[pa.Field]:
        return [field for field in self.schema if is_text(field.type)]

    @property
    def null_bytes(self) -> int:
        return -(-len(self.schema) // 8)

    @property
    def width(self) -> int:
        """Bytes of a record."""
        own = sum(fixed_width(field.type) or 0 for field in self.fixed)
        return CHECKSUM + self.null_bytes + own + _PLACE + _LENGTH * len(self.texts)

    def encode(self, rows: pa.Table, first: int, heap_start: int) -> tuple[Bytes, Bytes]:
        """The records and the heap of rows that begin at number `first`; their texts begin at `heap_start`."""
        nulls = np.stack([np.asarray(rows[field.name].is_null()) for field in self.schema], axis=1)
        fixed = [fixed_bytes(rows[field.name].combine_chunks()) for field in self.fixed]
        texts = [_text_bytes(rows[field.name].combine_chunks()) for field in self.texts]
        lengths = np.stack([each[1] for each in texts], axis=1) if texts else np.zeros((len(rows), 0), np.int64)
        heap, places = _interleave(texts, lengths)
        parts = [np.packbits(nulls, axis=1, bitorder="little"), *fixed, _as_bytes((places + heap_start).astype("<u8"))]
        parts.append(_as_bytes(lengths.astype("<u4")))
        body = np.concatenate(parts, axis=1)
        sums = _checksums(body, heap, lengths.sum(axis=1), np.arange(first, first + len(rows)))
        return np.concatenate([_as_bytes(sums), body], axis=1), heap

    def decode(self, records: Bytes, heap: Bytes, numbers: Integers, names: Sequence[str]) -> pa.Table:
        """The columns `names` of rows with these numbers. `heap`: the texts of these rows alone, one after the other.

        Raises DamagedRowsError.
        """
        at = CHECKSUM + self.null_bytes
        nulls = np.unpackbits(records[:, CHECKSUM:at], axis=1, count=len(self.schema), bitorder="little").astype(bool)
        lengths = self.lengths(records)
        body = records[:, CHECKSUM:]
        if not np.array_equal(_checksums(body, heap, lengths.sum(axis=1), numbers), self._stored_sums(records)):
            raise DamagedRowsError("a row differs from what was written")
        columns = dict[str, pa.Array]()
        null_of = {field.name: nulls[:, number] for number, field in enumerate(self.schema)}
        for field in self.fixed:
            width = fixed_width(field.type) or 0
            if field.name in names:
                columns[field.name] = _fixed_array(records[:, at : at + width], field.type, null_of[field.name])
            at += width
        columns |= self._decode_texts(heap, lengths, null_of, names)
        return pa.Table.from_arrays([columns[name] for name in names], schema=self._subset(names))

    def places(self, records: Bytes) -> Integers:
        """Where the texts of these records begin in the heap."""
        end = self.width - _LENGTH * len(self.texts)
        return _from_bytes(records[:, end - _PLACE : end], "<u8").astype(np.int64)

    def lengths(self, records: Bytes) -> Integers:
        """The lengths of the texts of these records: a column for each text."""
        parts = records[:, self.width - _LENGTH * len(self.texts) :]
        lengths: Integers = (
            np.ascontiguousarray(parts).view("<u4").reshape(len(records), len(self.texts)).astype(np.int64)
        )
        return lengths

    def _stored_sums(self, records: Bytes) -> npt.NDArray[np.uint64]:
        return _from_bytes(records[:, :CHECKSUM], "<u8")

    def _decode_texts(
        self, heap: Bytes, lengths: Integers, null_of: dict[str, Mask], names: Sequence[str]
    ) -> dict[str, pa.Array]:
        starts = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))])[:-1]
        columns = dict[str, pa.Array]()
        for number, field in enumerate(self.texts):
            own = lengths[:, number]
            if field.name in names:
                data = heap[expand(starts + lengths[:, :number].sum(axis=1), own)]
                offsets = np.concatenate([[0], np.cumsum(own)]).astype(np.int32)
                parts = [pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
                buffers = [_validity(null_of[field.name]), *parts]
                columns[field.name] = pa.Array.from_buffers(field.type, len(own), buffers)
        return columns

    def _subset(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])


def expand(starts: Integers, lengths: Integers) -> Integers:
    """All places of ranges, one range after the other."""
    ends = np.cumsum(lengths)
    places: Integers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return places


def _as_bytes(values: npt.NDArray[np.generic]) -> Bytes:
    rows = len(values)
    return np.ascontiguousarray(values).view(np.uint8).reshape(rows, -1 if rows else 0)


def _from_bytes(part: Bytes, kind: str) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(part).view(kind).reshape(len(part))


def fixed_bytes(array: pa.Array) -> Bytes:
    """The values as they lie in Arrow's buffer; a null's bytes are zero, so that equal rows are equal bytes."""
    if pa.types.is_boolean(array.type):
        return _as_bytes(np.asarray(array.fill_null(False).cast(pa.uint8())))
    width = int(array.type.byte_width)
    # without values there may be no buffer
    if not len(array):
        return np.empty((0, width), np.uint8)
    data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, width)[array.offset : array.offset + len(array)]
    return np.where(np.asarray(array.is_null())[:, np.newaxis], np.uint8(0), data) if array.null_count else data


def _text_bytes(array: pa.Array) -> tuple[Bytes, Integers]:
    """The texts one after the other, without those of nulls, and their lengths."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.where(np.asarray(array.is_null()), 0, np.diff(bounds))
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole[expand(bounds[:-1], lengths)], lengths


def _interleave(texts: Sequence[tuple[Bytes, Integers]], lengths: Integers) -> tuple[Bytes, Integers]:
    """The texts of each row side by side, and where each row's begin."""
    of_row = lengths.sum(axis=1)
    places = np.cumsum(of_row) - of_row
    heap = np.empty(int(of_row.sum()), np.uint8)
    for number, (data, own) in enumerate(texts):
        heap[expand(places + lengths[:, :number].sum(axis=1), own)] = data
    return heap, places


def _checksums(body: Bytes, heap: Bytes, lengths: Integers, numbers: Integers) -> npt.NDArray[np.uint64]:
    """Sums of the bytes of each row, each byte by a weight of its place (multilinear hashing)."""
    own = body.astype(np.uint64) @ _WEIGHTS[np.arange(body.shape[1]) % len(_WEIGHTS)]
    starts = np.cumsum(lengths) - lengths
    at = np.arange(len(heap)) - np.repeat(starts, lengths)
    weighed = (heap.astype(np.uint64) + np.uint64(1)) * _WEIGHTS[at % len(_WEIGHTS)]
    weighed = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighed)])
    of_texts = weighed[starts + lengths] - weighed[starts]
    sums: npt.NDArray[np.uint64] = own + of_texts + (numbers.astype(np.uint64) + np.uint64(1)) * _NUMBER
    return sums


def _fixed_array(part: Bytes, kind: pa.DataType, nulls: Mask) -> pa.Array:
    data = np.ascontiguousarray(part)
    if pa.types.is_boolean(kind):
        return pa.array(data.reshape(-1).astype(bool), pa.bool_(), mask=nulls)
    return pa.Array.from_buffers(kind, len(part), [_validity(nulls), pa.py_buffer(data)])


def _validity(nulls: Mask) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None

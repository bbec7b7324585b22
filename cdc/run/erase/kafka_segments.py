"""Reads what a segment of Kafka's log holds, from its file: the records of each batch, decompressed, as bytes.

The format is Kafka's own (documentation, "Record Batch"), from magic 2 on. What is no batch ends the reading.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa

_HEAD: Final = struct.Struct(">qiib")
_HEAD_BYTES: Final = 61
_ATTRIBUTES: Final = 21
_MAGIC: Final = 2
_CODECS: Final = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY: Final = 2
_XERIAL: Final = b"\x82SNAPPY\x00"


def read_batches(file: BinaryIO) -> Iterator[bytes]:
    """The records of each batch, one after the other. Raises ValueError or OSError for a damaged one."""
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        _, length, _, magic = _HEAD.unpack(head)
        if magic != _MAGIC or length < _HEAD_BYTES - 12:
            return
        whole = head + file.read(length + 12 - _HEAD.size)
        (attributes,) = struct.unpack_from(">h", whole, _ATTRIBUTES)
        yield _decompress(attributes & 7, whole[_HEAD_BYTES:])


def _decompress(codec: int, content: bytes) -> bytes:
    if codec == _SNAPPY:
        return _read_snappy(content)
    if codec not in _CODECS:
        return content
    with pa.CompressedInputStream(pa.BufferReader(content), _CODECS[codec]) as plain:
        return bytes(plain.read())


def _read_snappy(content: bytes) -> bytes:
    """Blocks as snappy-java frames them, or one block alone."""
    if not content.startswith(_XERIAL):
        return _read_block(content)
    at, parts = 16, list[bytes]()
    while at < len(content):
        (size,) = struct.unpack_from(">i", content, at)
        parts.append(_read_block(content[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def _read_block(block: bytes) -> bytes:
    # a block begins with its plain size, seven bits a byte
    size = shift = 0
    for byte in block:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return bytes(pa.decompress(block, size, "snappy").to_pybytes())

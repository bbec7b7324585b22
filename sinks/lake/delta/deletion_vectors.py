"""Deletion vectors: which rows of a data file are gone (Delta protocol, "Deletion Vectors" and their format)."""

import struct
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pyroaring import BitMap, BitMap64

from sinks.lake.storage.base import Storage

MAGIC = 1681511377
FORMAT_VERSION = b"\x01"
_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHARACTERS = np.frombuffer(_ALPHABET, np.uint8)
_VALUES = np.zeros(256, np.int64)
_VALUES[_CHARACTERS] = np.arange(85)
_POWERS = 85 ** np.arange(4, -1, -1)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Where a vector is stored: `kind` u (a file named by a UUID), p (a file by its path) or i (in `place` itself).

    `size`: bytes of its data, without what frames them in a file. `cardinality`: how many rows are gone. `offset`:
    where in the file its frame begins; None means 0, and is what kind i has.
    """

    kind: str
    place: str
    size: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        return f"{self.kind}{self.place}" + ("" if self.offset is None else f"@{self.offset}")

    @property
    def in_file(self) -> bool:
        return self.kind != "i"

    @property
    def path(self) -> str:
        """The file's path below the table's folder, or an absolute one (kind p)."""
        if self.kind == "p":
            return self.place
        # twenty characters are a UUID's 16 bytes; what stands before them is a folder ("Derived Fields")
        prefix, name = self.place[:-20], uuid.UUID(bytes=_from_z85(self.place[-20:])[:16])
        return f"{prefix}/deletion_vector_{name}.bin".lstrip("/")

    def as_json(self) -> dict[str, Any]:
        """The action's field; an offset is there for files only."""
        found: dict[str, Any] = {
            "storageType": self.kind,
            "pathOrInlineDv": self.place,
            "sizeInBytes": self.size,
            "cardinality": self.cardinality,
        }
        return found if self.offset is None else {**found, "offset": self.offset}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            value["storageType"],
            value["pathOrInlineDv"],
            int(value["sizeInBytes"]),
            int(value["cardinality"]),
            None if value.get("offset") is None else int(value["offset"]),
        )


class VectorFile:
    """Vectors of several data files on their way into one file, or into the log while there is room in it."""

    def __init__(self, in_log_bytes: int = 0) -> None:
        self._name = uuid.uuid4()
        self._parts = [FORMAT_VERSION]
        self._size = len(FORMAT_VERSION)
        self._left_in_log = in_log_bytes

    @property
    def path(self) -> str:
        return f"deletion_vector_{self._name}.bin"

    @property
    def content(self) -> bytes:
        """All of the file, empty when nothing was added to it."""
        return b"".join(self._parts) if len(self._parts) > 1 else b""

    def add(self, rows: BitMap) -> Descriptor:
        """Store a vector: in its descriptor as long as `in_log_bytes` are left, else here.

        Spark's VACUUM fails on a table with vectors in descriptors, in the table or among its tombstones (delta-spark
        4.4.0, MatchError in `VacuumCommand`); it reads them, as delta-rs and polars do. So they are only for places
        where nobody runs VACUUM: `Storage.vectors_in_log_bytes`.
        """
        data = pack(rows)
        if len(data) <= self._left_in_log:
            self._left_in_log -= len(data)
            return Descriptor("i", _to_z85(data), len(data), len(rows))
        offset = self._size
        # the frame is big-endian, what is in it little-endian ("Deletion Vector File Storage Format")
        framed = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        self._parts.append(framed)
        self._size += len(framed)
        return Descriptor("u", _to_z85(self._name.bytes), len(data), len(rows), offset)


def pack(rows: BitMap) -> bytes:
    """A vector's bytes: the magic number, then a 64-bit bitmap of one bucket (rows of a file end below 2^31)."""
    return struct.pack("<iqi", MAGIC, 1, 0) + rows.serialize()


def unpack(data: bytes) -> BitMap:
    """A vector's rows; raises ValueError for other bytes, or rows beyond 2^32."""
    if len(data) < 12:
        raise ValueError("not a deletion vector: too short")
    magic, buckets = struct.unpack_from("<iq", data)
    if magic != MAGIC:
        raise ValueError(f"not a deletion vector: magic number {magic}")
    if buckets == 0:
        return BitMap()
    if buckets == 1 and struct.unpack_from("<i", data, 12)[0] == 0:
        return BitMap.deserialize(data[16:])
    found = BitMap64.deserialize(data[4:])
    return BitMap(found)


def read(descriptor: Descriptor, storage: Storage) -> BitMap:
    """The rows of a vector of a table in this storage; raises FileNotFoundError, ValueError where it is damaged."""
    return framed(descriptor, storage.read(descriptor.path)) if descriptor.in_file else inline(descriptor)


def inline(descriptor: Descriptor) -> BitMap:
    """The rows of a vector that stands in its descriptor."""
    # Z85 knows whole words only: what was padded is cut off again
    return unpack(_from_z85(descriptor.place)[: descriptor.size])


def framed(descriptor: Descriptor, file: bytes) -> BitMap:
    """The rows of a vector that stands in a file with these bytes; raises ValueError when they are damaged."""
    start = (descriptor.offset or 0) + 4
    data, frame = file[start : start + descriptor.size], file[start + descriptor.size :][:4]
    if len(frame) < 4 or zlib.crc32(data) != int.from_bytes(frame):
        raise ValueError(f"deletion vector {descriptor.unique_id} is damaged")
    return unpack(data)


def _to_z85(data: bytes) -> str:
    """Z85 (ZeroMQ RFC 32): base 85, four bytes a time, padded with zeros."""
    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.int64)
    characters: bytes = _CHARACTERS[words[:, None] // _POWERS % 85].tobytes()
    return characters.decode()


def _from_z85(text: str) -> bytes:
    digits = _VALUES[np.frombuffer(text.encode(), np.uint8)].reshape(-1, 5)
    words: bytes = (digits @ _POWERS).astype(">u4").tobytes()
    return words

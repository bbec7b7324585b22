"""Deletion vectors: the deleted rows of a data file (Delta protocol, "Deletion Vectors")."""

import struct
import uuid
import zlib
from collections.abc import Callable, Iterable

import msgspec
import numpy as np
from pyroaring import BitMap, BitMap64

from cdc.columns.arrays import Integers, Mask
from cdc.sinks.lake.storage.base import Storage

MAGIC = 1681511377
FORMAT_VERSION = b"\x01"
_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHARACTERS = np.frombuffer(_ALPHABET, np.uint8)
_VALUES = np.zeros(256, np.int64)
_VALUES[_CHARACTERS] = np.arange(85)
_POWERS = 85 ** np.arange(4, -1, -1)


class VectorDescriptor(
    msgspec.Struct, frozen=True, rename={"kind": "storageType", "place": "pathOrInlineDv", "size": "sizeInBytes"}
):
    """Location of a vector. `kind`: u (a file named by a UUID), p (a file by its path), i (inline in `place`).

    `size`: bytes of the data without its frame. `cardinality`: number of deleted rows. `offset`: start of the frame in
    the file; None for kind i, and 0 otherwise.
    """

    kind: str
    place: str
    size: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Identifies the vector, as the protocol's "Derived Fields" define it."""
        return f"{self.kind}{self.place}" + ("" if self.offset is None else f"@{self.offset}")

    @property
    def in_file(self) -> bool:
        return self.kind != "i"

    @property
    def path(self) -> str:
        """The file's path below the table's folder, or an absolute one (kind p)."""
        if self.kind == "p":
            return self.place
        # the last 20 characters are a UUID in Z85; a prefix names a folder ("Derived Fields")
        prefix, name = self.place[:-20], uuid.UUID(bytes=_from_z85(self.place[-20:])[:16])
        return f"{prefix}/deletion_vector_{name}.bin".lstrip("/")


class VectorFile:
    """Collects the vectors of several data files for one file, or inline in the log while room is left."""

    def __init__(self, in_log_bytes: int = 0) -> None:
        self._name = uuid.uuid4()
        # the file begins with a version byte; offsets count from the beginning
        self._parts = [FORMAT_VERSION]
        self._size = len(FORMAT_VERSION)
        self._left_in_log = in_log_bytes

    @property
    def path(self) -> str:
        """The file's path below the table's folder."""
        return f"deletion_vector_{self._name}.bin"

    @property
    def content(self) -> bytes:
        """The file's bytes; empty when all vectors went inline."""
        return b"".join(self._parts) if len(self._parts) > 1 else b""

    def add(self, rows: BitMap) -> VectorDescriptor:
        """Add a vector: inline while `in_log_bytes` last, else into this file.

        Spark's VACUUM fails on inline vectors, in the table or among its tombstones (delta-spark 4.4.0, MatchError in
        `VacuumCommand`). Spark, delta-rs and polars do read them. So write them only where nobody runs VACUUM:
        `Storage.vectors_in_log_bytes`.
        """
        data = pack(rows)
        if len(data) <= self._left_in_log:
            self._left_in_log -= len(data)
            return VectorDescriptor("i", _to_z85(data), len(data), len(rows))
        offset = self._size
        # the frame is big-endian, its data little-endian ("Deletion Vector File Storage Format")
        frame = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        self._parts.append(frame)
        self._size += len(frame)
        return VectorDescriptor("u", _to_z85(self._name.bytes), len(data), len(rows), offset)


def pack(rows: BitMap) -> bytes:
    """Encode a vector: the magic number, then a 64-bit bitmap of one bucket (row numbers stay below 2^31)."""
    return struct.pack("<iqi", MAGIC, 1, 0) + rows.serialize()


def unpack(data: bytes) -> BitMap:
    """Decode a vector; raises ValueError for other bytes, or rows beyond 2^32."""
    if len(data) < 12:
        raise ValueError("not a deletion vector: too short")
    magic, buckets = struct.unpack_from("<iq", data)
    if magic != MAGIC:
        raise ValueError(f"not a deletion vector: magic number {magic}")
    if buckets == 0:
        return BitMap()
    # the usual case: all row numbers are below 2^32, in bucket 0
    if buckets == 1 and struct.unpack_from("<i", data, 12)[0] == 0:
        return BitMap.deserialize(data[16:])
    rows = BitMap64.deserialize(data[4:])
    return BitMap(rows)


def read(descriptor: VectorDescriptor, storage: Storage) -> BitMap:
    """Read a vector from the log or its file; raises FileNotFoundError, or ValueError when it is damaged."""
    return _decode(descriptor, storage.read)


def _decode(descriptor: VectorDescriptor, read_file: Callable[[str], bytes]) -> BitMap:
    return read_framed(descriptor, read_file(descriptor.path)) if descriptor.in_file else read_inline(descriptor)


class VectorCache:
    """Reads vectors once, as long as they are kept: a vector never changes. May be used in several threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._vectors: dict[VectorDescriptor, BitMap] = {}
        # all vectors of a commit share one file
        self._last_file = ("", b"")

    def read(self, descriptor: VectorDescriptor) -> BitMap:
        """A vector, which the caller must not change; raises as the function `read` does."""
        found = self._vectors.get(descriptor)
        if found is None:
            found = self._vectors[descriptor] = _decode(descriptor, self._read_file)
        return found

    def keep(self, descriptors: Iterable[VectorDescriptor | None]) -> None:
        """Forget all other vectors."""
        kept = ((each, self._vectors.get(each)) for each in descriptors if each)
        self._vectors = {each: vector for each, vector in kept if vector is not None}
        self._last_file = ("", b"")

    def _read_file(self, path: str) -> bytes:
        # a local: another thread may read another file meanwhile
        last = self._last_file
        if last[0] != path:
            last = self._last_file = (path, self._storage.read(path))
        return last[1]


def read_inline(descriptor: VectorDescriptor) -> BitMap:
    """Decode a vector stored in its descriptor."""
    # Z85 encodes whole words: cut the padding off
    return unpack(_from_z85(descriptor.place)[: descriptor.size])


def read_framed(descriptor: VectorDescriptor, file: bytes) -> BitMap:
    """Decode a vector from its file's bytes; raises ValueError when they are damaged."""
    start = (descriptor.offset or 0) + 4
    data, frame = file[start : start + descriptor.size], file[start + descriptor.size :][:4]
    if len(frame) < 4 or zlib.crc32(data) != int.from_bytes(frame):
        raise ValueError(f"deletion vector {descriptor.unique_id} is damaged")
    return unpack(data)


def deleted_mask(vector: BitMap, rows: Integers) -> Mask:
    """Which of these row numbers are in the vector."""
    if not vector:
        return np.zeros(len(rows), np.bool_)
    gone = np.asarray(vector.to_array(), np.int64)
    at = np.minimum(np.searchsorted(gone, rows), len(gone) - 1)
    contained: Mask = gone[at] == rows
    return contained


def _to_z85(data: bytes) -> str:
    """Z85 (ZeroMQ RFC 32): base 85, four bytes at a time, padded with zeros."""
    # Z85 is big-endian
    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.int64)
    characters: bytes = _CHARACTERS[words[:, None] // _POWERS % 85].tobytes()
    return characters.decode()


def _from_z85(text: str) -> bytes:
    digits = _VALUES[np.frombuffer(text.encode(), np.uint8)].reshape(-1, 5)
    return (digits @ _POWERS).astype(">u4").tobytes()

"""Deletion vectors round trip, through files and inline."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from cdc.sinks.lake.delta.deletion_vectors import (
    VectorCache,
    VectorDescriptor,
    VectorFile,
    _to_z85,
    pack,
    read_framed,
    read_inline,
    unpack,
)
from cdc.sinks.lake.storage.base import LocalFolder

PROTOCOLS_EXAMPLE = VectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
"""Delta protocol, "JSON Example 1"."""


def test_the_protocols_example_descriptor_names_its_file() -> None:
    assert PROTOCOLS_EXAMPLE.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@given(st.lists(st.sets(st.integers(0, 2**31 - 1)), min_size=1, max_size=4))
def test_vectors_round_trip_through_a_file(vectors: list[set[int]]) -> None:
    file = VectorFile()
    stored = [file.add(BitMap(rows)) for rows in vectors]
    for descriptor, rows in zip(stored, vectors, strict=True):
        again = msgspec.json.decode(msgspec.json.encode(descriptor), type=VectorDescriptor)
        assert again == descriptor
        assert set(read_framed(again, file.content)) == rows
        assert again.cardinality == len(rows)


@given(st.sets(st.integers(0, 2**31 - 1), max_size=50))
def test_inline_vectors_are_read(rows: set[int]) -> None:
    """Other writers keep small vectors inline."""
    data = pack(BitMap(rows))
    assert set(read_inline(VectorDescriptor("i", _to_z85(data), len(data), len(rows)))) == rows


def test_small_vectors_go_inline_while_room_is_left() -> None:
    few, many = BitMap(range(0, 1000, 7)), BitMap(range(0, 100_000, 7))
    file = VectorFile(in_log_bytes=1000)
    in_log, too_large, no_room = file.add(few), file.add(many), [file.add(few) for _ in range(9)][-1]
    assert (in_log.kind, too_large.kind, no_room.kind) == ("i", "u", "u")
    assert read_inline(in_log) == few
    assert read_framed(too_large, file.content) == many


def test_unpack_refuses_other_bytes() -> None:
    with pytest.raises(ValueError, match="magic"):
        unpack(b"x" * 20)
    file = VectorFile()
    descriptor = file.add(BitMap(range(0, 10_000, 3)))
    damaged = bytearray(file.content)
    damaged[100] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        read_framed(descriptor, bytes(damaged))
    assert unpack(pack(BitMap([7]))) == BitMap([7])


def test_kept_vectors_are_read_once_and_the_file_of_a_commit_too(tmp_path: Path) -> None:
    file, storage = VectorFile(), LocalFolder(str(tmp_path))
    first, second = file.add(BitMap([1, 2])), file.add(BitMap([3]))
    inline = VectorFile(in_log_bytes=1000).add(BitMap([4]))
    storage.write(file.path, file.content)
    cache = VectorCache(storage)
    assert [set(cache.read(each)) for each in (first, inline)] == [{1, 2}, {4}]
    (tmp_path / file.path).unlink()
    assert set(cache.read(second)) == {3}
    cache.keep([first, None])
    assert set(cache.read(first)) == {1, 2}
    with pytest.raises(FileNotFoundError):
        cache.read(second)

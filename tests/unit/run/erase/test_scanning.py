"""Values are found in every encoding and behind every compression that files of ours have."""

import base64
import gzip
import io
import json
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from cdc.core.table import Column, Kind, Table, TableName
from cdc.run.erase.scanning import CHUNK, has_values
from cdc.run.erase.values import Sought, list_values

TEXT = 'Zoë "Q" Canary\n1'
SOUGHT = Sought((TEXT,))


def has(path: str, content: bytes, sought: Sought = SOUGHT) -> bool:
    return has_values(path, lambda: io.BytesIO(content), sought)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_text_in_json_and_in_json_within_json(ascii_only: bool) -> None:
    once = json.dumps({"name": TEXT}, ensure_ascii=ascii_only)
    assert has("a.json", once.encode())
    assert has("a.json", json.dumps({"stats": once}, ensure_ascii=ascii_only).encode())
    assert not has("a.json", once.replace("Canary", "Other").encode())


def test_text_across_two_parts_of_a_large_file() -> None:
    pattern = TEXT.encode()
    assert has("a.bin", b"." * (CHUNK - 3) + pattern)
    assert not has("a.bin", b"." * (CHUNK - 3) + pattern[:-1])


def test_numbers_ids_and_bytes() -> None:
    id, raw = uuid.uuid4(), b"\x00secret bytes\xff"
    sought = Sought((str(id), "491511234567", base64.b64encode(raw).decode()))
    for content in (id.bytes, str(id).encode(), b"491511234567", struct.pack("<q", 491511234567), raw):
        assert has("a.bin", b"before" + content + b"after", sought)
    assert not has("a.bin", b"before and after", sought)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_values_of_parquet(compression: str, dictionary: bool) -> None:
    kind = pa.list_(pa.struct([("names", pa.map_(pa.string(), pa.string()))]))
    rows = pa.table({"deep": pa.array([[{"names": [("k", TEXT)]}]] * 1000, kind)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=compression, use_dictionary=dictionary)
    assert has("part-1.parquet", sink.getvalue().to_pybytes())
    assert not has("part-1.parquet", sink.getvalue().to_pybytes(), Sought(("another text",)))


def test_values_of_arrow_and_gzip() -> None:
    rows, sink = pa.table({"name": pa.array([TEXT] * 1000)}), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    assert has("rows.arrow", sink.getvalue().to_pybytes())
    assert has("old.log.gz", gzip.compress(TEXT.encode() * 100))


def make_segment(codec: int, records: bytes) -> bytes:
    """A segment with one batch; what nobody looks at is zero."""
    head = struct.pack(">qiibihiqqqhii", 0, 49 + len(records), 0, 2, 0, codec, 0, 0, 0, 0, 0, 0, 1)
    return head + records


def compress(codec: int, plain: bytes) -> bytes:
    if codec == 2:
        blocks = [bytes(pa.compress(part, "snappy").to_pybytes()) for part in (plain[:20], plain[20:])]
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, {1: "gzip", 3: "lz4", 4: "zstd"}[codec]) as stream:
        stream.write(plain)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_records_of_a_segment(codec: int) -> None:
    plain = b"x" * 15 + TEXT.encode() * 50
    content = make_segment(0, b"first") + make_segment(codec, compress(codec, plain) if codec else plain)
    assert has("00000000000000000000.log", content)
    assert not has("00000000000000000000.log", content, Sought(("another text",)))


def test_no_segment_is_a_log_as_any_other(tmp_path: Path) -> None:
    assert has("follow.log", f"2026 a line about {TEXT}".encode())
    assert not has("follow.log", b"2026 a line about nobody, long enough for a head of a batch" * 9)


def test_which_values_identify() -> None:
    kinds = {"id": Kind.INTEGER, "name": Kind.TEXT, "more": Kind.JSON, "at": Kind.TIMESTAMP, "phone": Kind.BIGINT}
    table = Table(TableName("public", "t"), tuple(Column(name, kind) for name, kind in kinds.items()), ("id",))
    row = {"id": 7, "name": "Somebody", "at": "2026-01-01T00:00:00", "phone": 491511234567, "more": None}
    other = {**row, "name": "short", "more": '{"deep": ["a street 5", {"b": true}]}'}
    assert list_values([row, row, other], table) == ["Somebody", "491511234567", "a street 5"]

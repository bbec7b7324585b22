"""Prints of rows: 128 bits of a row's name and 128 of its document, by which two sides are compared key by key.

They take 32 bytes a row, whatever the row's size, and are made of what is read, never of what is stored beside it.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pandas.util import hash_array

from cdc.columns.arrays import Mask
from cdc.columns.rows.digest import BYTES, Digest, digest_of_words, hash_document
from cdc.columns.rows.documents import documents, key_documents, portions
from cdc.columns.rows.held import Held
from cdc.core.table import Table

Prints = npt.NDArray[np.uint64]
"""One line a row: two words of its name, two of its document, which are 0 where the name has no row any more."""
Names = npt.NDArray[np.uint64]
"""One line a name: its two words."""
LONGEST_NAME: Final = 512
"""Bytes of a name; an index takes no longer ids, and has a hash in their place."""
LOGGED: Final = 500_000
"""Records of a log that are in memory, 32 bytes each, before older ones of their names are left out."""
_GONE: Final = bytes(BYTES)
_KEYS: Final = secrets.token_hex(8), secrets.token_hex(8)
"""Of SipHash, 16 bytes each, another pair in each process: nobody can choose rows whose hashes have the same sum."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows as a follower stores them: a name for each, and its document.

    `names`: made when they are asked for.
    `is_log`: of a name that comes again the last one counts, and None is for one that has no row any more.
    """

    names: Callable[[], Sequence[bytes]]
    documents: Sequence[bytes | None]
    is_log: bool = False


def print_rows(rows: StoredRows, nulls: re.Pattern[bytes] | None = None) -> Prints:
    """The prints of rows; of their documents without what matches `nulls`: what `find_nulls` has made."""
    documents = rows.documents
    if nulls is not None:
        documents = [_drop(document, nulls) for document in documents]
    pairs = zip(map(_hash_name, rows.names()), map(_hash_or_gone, documents), strict=True)
    return np.frombuffer(b"".join(chain.from_iterable(pairs)), "<u8").reshape(-1, 4)


def find_nulls(columns: Iterable[str]) -> re.Pattern[bytes]:
    """Matches the nulls of these columns in a document: one that is older than a column lacks what others have as null.

    No text within a document matches: its quotes have a backslash before them.
    """
    names = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in columns)
    return re.compile(f",(?:{names}):null".encode())


def _drop(document: bytes | None, nulls: re.Pattern[bytes]) -> bytes | None:
    return nulls.sub(b"", document) if document is not None and b":null" in document else document


def print_names(names: Iterable[bytes]) -> Names:
    return np.frombuffer(b"".join(map(_hash_name, names)), "<u8").reshape(-1, 2)


def store(parts: Iterable[pa.Table], table: Table, held: Held | None) -> Iterator[StoredRows]:
    """Rows as the follower would store them. In a table without a key, the whole row is its name."""
    write = held.write if held else documents
    for rows in chain.from_iterable(map(portions, parts)):
        texts = to_bytes(write(rows, table))
        yield StoredRows(partial(name_rows, rows, table, held) if table.key else partial(list, texts), texts)


def name_rows(keys: pa.Table, table: Table, held: Held | None) -> Sequence[bytes]:
    """The names of rows, of which the columns of the key are enough."""
    return to_bytes(held.identify(keys, table) if held else key_documents(keys, table))


def to_bytes(texts: pa.Array) -> list[bytes]:
    found: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return found


def digest_stored(parts: Iterable[StoredRows]) -> Digest:
    """The digest of what is stored; of a log, of the newest row of each name. Equal only to another of this process."""
    found, newest, behind = Digest(), np.empty((0, 4), np.uint64), list[Prints]()
    for rows in parts:
        if not rows.is_log:
            found += digest_of_words(_hash_texts([text for text in rows.documents if text is not None]))
            continue
        behind.append(np.hstack([_hash_texts(rows.names()), _hash_documents(rows.documents)]))
        # in doubling steps: memory is that of the names, not of the records
        if sum(map(len, behind)) > max(len(newest), LOGGED):
            newest, behind = keep_newest(np.concatenate([newest, *behind])), []
    last = keep_newest(np.concatenate([newest, *behind]))
    return found + digest_of_words(last[:, 2:])


def keep_newest(prints: Prints) -> Prints:
    """Of each name the last row, if the name has one still."""
    if not len(prints):
        return prints
    order = _sort_names(prints[:, :2])
    names = prints[order, :2]
    is_last = np.ones(len(prints), np.bool_)
    is_last[:-1] = (names[1:] != names[:-1]).any(axis=1)
    newest = prints[order[is_last]]
    return newest[newest[:, 2:].any(axis=1)]


def _sort_names(names: Names) -> npt.NDArray[np.intp]:
    """The order in which equal names are beside each other, and those of one name in the order in which they were."""
    order = np.argsort(names[:, 0], kind="stable")
    by_half = names[order]
    # names that only share a half are as good as never there, and half of the bits is sorted in half of the time
    if ((by_half[1:, 0] == by_half[:-1, 0]) & (by_half[1:, 1] != by_half[:-1, 1])).any():
        return np.lexsort((names[:, 1], names[:, 0]))
    return order


def select_among(prints: Prints, names: Names) -> Mask:
    """Which rows may have one of these names: by half of their bits, so that one of 2^64 others may be among them."""
    found: Mask = np.isin(prints[:, 0], names[:, 0])
    return found


def _hash_documents(texts: Sequence[bytes | None]) -> Names:
    """The same of documents, 0 for one that is gone."""
    found = _hash_texts([text or b"" for text in texts])
    found[[text is None for text in texts]] = 0
    return found


def _hash_texts(texts: Sequence[bytes]) -> Names:
    """Hash texts by SipHash under two keys: two words each, for a third of what BLAKE2b takes, and without the GIL.

    After Aumasson and Bernstein, "SipHash: a fast short-input PRF" (INDOCRYPT 2012).
    """
    values = np.array(texts, object)
    return np.column_stack([hash_array(values, hash_key=key, categorize=False) for key in _KEYS])


def _hash_name(name: bytes) -> bytes:
    return hash_document(name if len(name) <= LONGEST_NAME else hashlib.sha256(name).hexdigest().encode())


def _hash_or_gone(text: bytes | None) -> bytes:
    return _GONE if text is None else hash_document(text)

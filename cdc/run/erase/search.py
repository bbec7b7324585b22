"""The search for a row's bytes in all places that this machine reaches, before an erasure and after it."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from cdc.core.errors import CdcError
from cdc.core.text.plural import format_count
from cdc.run.erase.index_steps import find_documents
from cdc.run.erase.log_steps import LogErasure
from cdc.run.erase.scanning import has_values
from cdc.run.erase.values import Sought
from cdc.run.pipeline import Pipeline
from cdc.sinks.lake.removal import list_files
from cdc.sinks.lake.storage.base import Storage, open_storage

MOST_NAMED: Final = 20
"""Files of one place that a report names."""
_OF_SOURCE: Final = ("local/postgres", "secrets")
"""Below the state folder: the source's own data, which is out of reach, and passwords."""


@dataclass(frozen=True, slots=True)
class PlaceSearch:
    """What was found at one place: in `found` of `searched` files, records or documents; `named`: the first files.

    `unknown`: why it could not be searched.
    """

    place: str
    searched: int
    found: int
    named: Sequence[str] = ()
    unknown: str = ""

    def as_json(self) -> dict[str, Any]:
        own = {"place": self.place, "searched": self.searched, "found": self.found, "files": [*self.named]}
        return {**own, "unknown": self.unknown} if self.unknown else own

    def __str__(self) -> str:
        if self.unknown:
            return f"{self.place}: not searched: {self.unknown}"
        return f"{self.place}: found in {self.found} of {format_count(self.searched, 'thing')}"


@dataclass(frozen=True, slots=True)
class ByteSearch:
    """One search of all places."""

    at: str
    places: Sequence[PlaceSearch] = field(default_factory=tuple)

    @property
    def left(self) -> list[PlaceSearch]:
        return [place for place in self.places if place.found or place.unknown]

    def as_json(self) -> dict[str, Any]:
        return {"at": self.at, "places": [place.as_json() for place in self.places]}


def search(pipeline: Pipeline, erasure: LogErasure, sought: Sought, folders: Sequence[Path], at: str) -> ByteSearch:
    """Search lake, topics, indexes, the state folder, and further folders: those of brokers and nodes, say."""
    places = [_search_lake(pipeline, sought), *_search_topics(erasure), *_search_indexes(pipeline, sought)]
    return ByteSearch(at, [*places, *search_folders(pipeline, sought, folders)])


def search_folders(pipeline: Pipeline, sought: Sought, folders: Sequence[Path]) -> Iterator[PlaceSearch]:
    """Search the state folder and further ones of this machine."""
    outside = [pipeline.state / each for each in _OF_SOURCE]
    lake = [Path(pipeline.lake.path)] if pipeline.lake.access is None else []
    yield _search_folder("state folder", pipeline.state, sought, [*outside, *lake, *folders])
    yield from (_search_folder(f"folder {folder}", folder, sought, outside) for folder in folders)


def _search_lake(pipeline: Pipeline, sought: Sought) -> PlaceSearch:
    place = f"lake {pipeline.lake.path}"
    try:
        storage = open_storage(pipeline.lake.path.rstrip("/"), pipeline.lake.access)
        paths = [path for path, _ in list_files(pipeline.lake)]
        return _search_files(place, ((path, partial(_open_stored, storage, path)) for path in paths), sought)
    except CdcError as error:
        return PlaceSearch(place, 0, 0, unknown=str(error))


def _open_stored(storage: Storage, path: str) -> BinaryIO:
    return cast(BinaryIO, storage.open(path))


def _search_folder(place: str, folder: Path, sought: Sought, outside: Sequence[Path]) -> PlaceSearch:
    apart = [each.resolve() for each in outside if each.resolve() != folder.resolve()]
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not any(path.resolve().is_relative_to(each) for each in apart)
    ]
    named = ((str(path.relative_to(folder)), partial(_open_local, path)) for path in paths)
    return _search_files(place, named, sought)


def _open_local(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        # gone since it was listed
        return io.BytesIO()


def _search_files(place: str, files: Iterable[tuple[str, Any]], sought: Sought) -> PlaceSearch:
    count, found, unread = 0, list[str](), list[str]()
    for path, open_file in files:
        count += 1
        try:
            if has_values(path, open_file, sought):
                found.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            unread.append(f"{path}: {error.strerror or error}")
    return PlaceSearch(place, count, len(found), found[:MOST_NAMED], "; ".join(unread[:MOST_NAMED]))


def _search_topics(erasure: LogErasure) -> Iterator[PlaceSearch]:
    try:
        for topic in erasure.list_topics():
            found, searched = erasure.count(topic)
            yield PlaceSearch(f"topic {topic}", searched, found)
    except CdcError as error:
        yield PlaceSearch("topics", 0, 0, unknown=str(error))


def _search_indexes(pipeline: Pipeline, sought: Sought) -> Iterator[PlaceSearch]:
    try:
        found: Mapping[str, int] = find_documents(pipeline, sought)
    except CdcError as error:
        yield PlaceSearch("indexes", 0, 0, unknown=str(error))
        return
    yield from (PlaceSearch(f"index {name}", count, count) for name, count in found.items())

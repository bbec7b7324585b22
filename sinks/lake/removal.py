"""Takes a lake away: the tables, histories and views of a pipeline, with its metadata, and nothing else beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import obstore
from obstore.store import LocalStore

from cdc.sinks.lake.cloud_settings import split_path
from cdc.sinks.lake.delta.log import DeltaLog, LogDamagedError
from cdc.sinks.lake.layout import METADATA, Lake, is_history, table_of
from cdc.sinks.lake.storage.base import open_storage
from cdc.sinks.lake.storage.clients import Bucket, connect
from cdc.sinks.lake.storage.store_errors import translate_errors

_LOG = "/_delta_log/"


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """The files of a lake: how many, how large, in which folders, of which some are `histories`.

    `foreign`: files beside them that are not ours, or whose log is unreadable.
    """

    files: int
    bytes: int
    folders: Sequence[str]
    histories: Sequence[str]
    foreign: Sequence[str]


def find_files(lake: Lake) -> LakeFiles:
    """List all files below the lake's path. Raises CdcError when its store does not answer."""
    sizes = dict(list_files(lake))
    kinds = {folder: _is_ours(lake, folder) for folder in _find_tables(sizes)}
    folders = [METADATA, *(folder for folder, is_kept in kinds.items() if is_kept is not None)]
    own = {key: size for key, size in sizes.items() if key.startswith(tuple(f"{folder}/" for folder in folders))}
    histories = [folder for folder, is_kept in kinds.items() if is_kept]
    return LakeFiles(len(own), sum(own.values()), folders, histories, sorted(sizes.keys() - own.keys()))


def remove(lake: Lake) -> None:
    """Delete the lake's folders; its metadata last, by which a second try knows the lake."""
    remove_folders(lake, sorted(find_files(lake).folders, key=lambda each: each == METADATA))


def remove_folders(lake: Lake, folders: Iterable[str]) -> None:
    """Delete these folders of the lake, whatever is in them."""
    for folder in folders:
        if lake.access is None:
            _remove_folder(Path(lake.path), folder)
        else:
            store, prefix = _open(lake)
            with translate_errors(lake.path, lake.access):
                for chunk in obstore.list(store, f"{prefix}{folder}/"):
                    obstore.delete(store, [entry["path"] for entry in chunk])


def _remove_folder(root: Path, folder: str) -> None:
    rmtree(root / folder, ignore_errors=not (root / folder).exists())
    # the folder of a schema, and the lake's own, once nothing is in it
    with suppress(OSError):
        (root / folder).parent.rmdir()
        root.rmdir()


def _find_tables(sizes: Mapping[str, int]) -> list[str]:
    """The folders that hold Delta tables."""
    return sorted({key.partition(_LOG)[0] for key in sizes if _LOG in key and not key.startswith(f"{METADATA}/")})


def _is_ours(lake: Lake, folder: str) -> bool | None:
    """Does one of our tables lie here, and is it a history? None if another one does."""
    try:
        log = DeltaLog.open(open_storage(f"{lake.path.rstrip('/')}/{folder}", lake.access))
    except LogDamagedError:
        return None
    table = table_of(log.snapshot) if log else None
    if log is None or table is None or not lake.folder(table.name).endswith(f"/{folder}"):
        return None
    return is_history(log.snapshot)


def list_files(lake: Lake) -> Iterator[tuple[str, int]]:
    """Each file below the lake's path, relative to it, with its bytes, whoever's it is."""
    if lake.access is None:
        if Path(lake.path).exists():
            for chunk in obstore.list(LocalStore(lake.path)):
                yield from ((entry["path"], entry["size"]) for entry in chunk)
        return
    store, prefix = _open(lake)
    with translate_errors(lake.path, lake.access):
        for chunk in obstore.list(store, prefix or None):
            yield from ((entry["path"].removeprefix(prefix), entry["size"]) for entry in chunk)


def _open(lake: Lake) -> tuple[Bucket, str]:
    assert lake.access is not None
    bucket, prefix = split_path(lake.path)
    return connect(bucket, lake.access), f"{prefix}/".lstrip("/")

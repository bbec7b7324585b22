"""Where the lake lies."""

from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import Fault, Severity, check
from cdc.run.doctor.parts import AskedParts

_LEAST_BYTES: Final = 1 << 30
_LEAST_INODES: Final = 0.05
NO_LINKS: Final = frozenset(
    {"vfat", "msdos", "exfat", "fuseblk", "cifs", "smb3", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"}
)
"""File systems in which a name cannot be taken by one of two writers only: they have no hard links."""
_DISTANT: Final = frozenset({"nfs", "nfs4", "fuse.sshfs", "9p"})


@check("lake.answers", Severity.ERROR, "every follower is fed from it")
def find_lake(parts: AskedParts) -> Iterator[Fault]:
    """The lake can be read, and the store that it lies in lets us in."""
    _ = parts.has_copy
    yield from ()


@check("lake.writable", Severity.ERROR, "nothing can be copied")
def find_closed_folder(parts: AskedParts) -> Iterator[Fault]:
    """This process may write into its folder."""
    folder = parts.machine.lake
    if folder and not folder.is_writable:
        yield Fault(folder.path, f"{folder.path} cannot be written", "give the user of cdc the right to write there")


@check("lake.space", Severity.WARNING, "a full disk ends every follower")
def find_little_space(parts: AskedParts) -> Iterator[Fault]:
    """There is 1 GiB of room, and before a first copy as much as the tables take."""
    folder = parts.machine.lake
    if not folder:
        return
    copied = 0 if parts.has_copy else sum(size.bytes for size in parts.tables.sizes.values())
    if folder.free_bytes < max(_LEAST_BYTES, copied):
        free, needed = folder.free_bytes >> 20, max(_LEAST_BYTES, copied) >> 20
        what = f"{folder.path} has {free:,} MiB of room, and {needed:,} are needed"
        yield Fault(folder.path, what, "make room there, or name another path")


@check("lake.inodes", Severity.WARNING, "no file can be made, however much room there is")
def find_few_inodes(parts: AskedParts) -> Iterator[Fault]:
    """A twentieth of the file system's inodes is free."""
    folder = parts.machine.lake
    if folder and folder.free_inodes < _LEAST_INODES:
        what = f"{folder.path}: {folder.free_inodes:.1%} of the inodes are free"
        yield Fault(folder.path, what, "remove small files there, or name another path")


@check("lake.file_system", Severity.ERROR, "of two writers of one commit both would believe to have won")
def find_no_links(parts: AskedParts) -> Iterator[Fault]:
    """Its file system has hard links, and renames at once."""
    folder = parts.machine.lake
    if folder and folder.file_system in NO_LINKS:
        what = f"{folder.path} is on {folder.file_system}, which has no hard links"
        yield Fault(folder.path, what, "name a path on another file system, or an object store by s3://")


@check("lake.distance", Severity.WARNING, "a commit waits for several answers, and a lock may be lost")
def find_distance(parts: AskedParts) -> Iterator[Fault]:
    """Its file system is this machine's."""
    folder = parts.machine.lake
    if folder and folder.file_system in _DISTANT:
        what = f"{folder.path} is on {folder.file_system}"
        yield Fault(folder.path, what, "name a path on a disk of this machine, or an object store by s3://")

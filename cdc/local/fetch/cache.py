"""Where downloads are kept: per user, or in the system's cache when root runs the toolkit."""

import os
from pathlib import Path
from typing import Final

import platformdirs

from cdc.core.errors import PreconditionError

CACHE_VARIABLE: Final = "CDC_CACHE"


def cache_folder() -> Path:
    """The folder of downloads, made if missing: CDC_CACHE, else the user's cache folder.

    Root gets the system's cache instead: Postgres refuses to run as root, and the user that it then
    runs as can not enter root's home. PreconditionError if the folder cannot be made.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    default = platformdirs.site_cache_dir if os.geteuid() == 0 else platformdirs.user_cache_dir
    return open_folder(Path(chosen).expanduser().absolute() if chosen else Path(default("cdc")))


def open_folder(folder: Path) -> Path:
    """Make `folder` so that other users may enter and read it, whatever the umask; returns it."""
    try:
        # only folders that are made here: those that are there keep their owner's rights
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            path.chmod(0o755)
    except OSError as failure:
        raise PreconditionError(
            f"cannot make the folder {folder}: {failure.strerror}", f"set {CACHE_VARIABLE} to a folder of yours"
        ) from failure
    return folder

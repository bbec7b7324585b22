"""Small files that are either old or new, never half written."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Put `text` at `path` in one step, by default readable by the owner only; the folder must exist."""
    # in the same folder: only within a file system is a rename one step
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    """Put `settings` at `path` as a Java properties file, in one step."""
    write(path, "".join(f"{name}={value}\n" for name, value in settings.items()))

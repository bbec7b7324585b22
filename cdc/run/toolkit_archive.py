"""The toolkit's own code as a zip, which a cluster's workers get with their tasks."""

import os
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cdc.core.errors import PreconditionError

PACKAGE: Final = "cdc"
NAME: Final = "cdc-toolkit.zip"


def build_archive(folder: Path) -> Path:
    """Write the toolkit's package into a zip in `folder`; returns its path."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, top = folder / NAME, find_package()
    # put in place whole: another process may send the one that is there
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / NAME
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in _list_files(top):
                packed.write(file, file.relative_to(top.parent))
        made.replace(path)
    return path


def find_package() -> Path:
    """The folder of the toolkit's package, as it is installed here."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PreconditionError(f"package {PACKAGE} is not installed", "install the toolkit")
    return Path(next(iter(spec.submodule_search_locations)))


def _list_files(top: Path) -> Iterator[Path]:
    # in a checkout, three folders of the package are links to folders beside it: rglob follows none
    for folder, _, names in os.walk(top, followlinks=True):
        # compiled files belong to this machine's Python
        yield from (Path(folder) / name for name in sorted(names) if not name.endswith(".pyc"))

"""A Python as a cluster's workers have it: the documented packages alone, without this checkout."""

import re
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).parents[3] / "cdc" / "config" / "README.md"


def documented_packages() -> list[str]:
    """The packages that the page tells to install for workers."""
    [listed] = re.findall(r"^pip install (.+)$", PAGE.read_text(), re.MULTILINE)
    return [Requirement(word.strip("'")).name for word in listed.split()]


def make_worker_python(folder: Path) -> Path:
    """Make an environment in `folder` with links to these packages and what they require; returns its `python`."""
    venv.create(folder, symlinks=True, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    for name in _with_required(documented_packages()):
        for top in _top_entries(name):
            link = site / top.name
            if not link.exists():
                link.symlink_to(top)
    return folder / "bin" / "python"


def _with_required(names: Iterable[str]) -> set[str]:
    found, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in found and _is_installed(name):
            found.add(name)
            waiting += _required(name)
    return found


def _required(name: str) -> Iterator[str]:
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        # psycopg's binary is an extra of the documented name
        if requirement.marker is None or requirement.marker.evaluate({"extra": "binary"}):
            yield requirement.name


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _top_entries(name: str) -> set[Path]:
    """The files and folders of a distribution right below site-packages."""
    held = distribution(name)
    tops = {file.parts[0] for file in held.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {Path(str(held.locate_file(top))) for top in tops}

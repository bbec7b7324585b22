"""`python -m tests.site`: the documentation site, built from the folders' own pages into `build/site`.

Zensical takes one folder, and our pages lie beside the code. So a tree of links is made, which has every page at its
own path: a link between two pages is the same here as in the repository. What a page links to is in it, too.
A link that leads nowhere, an unknown anchor and any other warning end it with an exit code.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "zensical.toml"
NAV = Path("docs/nav.yml")
TREE = ROOT / "build" / "pages"
PUBLISHED = re.compile(
    r"README\.md|(\.github|cdc|connect|docker|docs|sinks|snapshots|tests/bench)/.*\.(md|svg)|docs/site\.css"
)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def list_files() -> set[Path]:
    """Every file of the repository, new ones included, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {Path(name) for name in said.splitlines() if (ROOT / name).is_file()}


def find_linked(page: Path) -> Iterator[Path]:
    """The files that a page links to, relative to the root."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        yield Path(os.path.normpath(page.parent / link))


def list_published(files: Iterable[Path]) -> set[Path]:
    """The site's pages and pictures, and what they link to."""
    pages = {file for file in files if PUBLISHED.fullmatch(file.as_posix())}
    linked = {file for page in pages if page.suffix == ".md" for file in find_linked(page)}
    return pages | linked


def make_tree(files: Iterable[Path]) -> None:
    """A folder of links to these files, each at its own path, and to the list of pages, where Zensical looks for it."""
    shutil.rmtree(TREE, ignore_errors=True)
    for file, place in [*((file, TREE / file) for file in files), (NAV, TREE / ".nav.yml")]:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ROOT / file)


def build() -> int:
    """Builds the site.

    :return: the exit code: 0 only without any warning.
    """
    files = list_files()
    published = list_published(files)
    lost = sorted(map(str, published - files))
    if lost:
        sys.exit(f"pages link to what is not there: {', '.join(lost)}")
    make_tree(published)
    zensical = str(Path(sys.executable).with_name("zensical"))
    command = [zensical, "build", "--clean", "--strict", "--config-file", str(CONFIG)]
    # it imports an extension of ours
    return subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


if __name__ == "__main__":
    sys.exit(build())

"""The page's own script and style as one file each, made when the server starts: two requests instead of 25.

Each module becomes a function's scope, in the order in which they need each other; nothing is renamed.
"""

import gzip
import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from minify_html import minify
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC: Final = Path(__file__).parent / "static"
MAIN: Final = "main.js"
SHEETS: Final = ("base", "now", "parts", "screens")
"""In the order in which they overrule each other."""
_PREFIX: Final = "app"
_COMMENT: Final = re.compile(r"^[ \t]*(?://.*|/\*(?:.|\n)*?\*/)\n", re.MULTILINE)
_IMPORT: Final = re.compile(r"^import \{([^}]*)\} from '([^']+)';\n", re.MULTILINE)
_EXPORT: Final = re.compile("^export ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file that is served under a name of its content, so that a browser keeps it until there is another."""

    name: str
    media_type: str
    text: bytes
    compressed: bytes

    @classmethod
    def of(cls, kind: str, media_type: str, text: str) -> "BundledFile":
        content = text.encode()
        name = f"{_PREFIX}-{hashlib.sha256(content).hexdigest()[:12]}.{kind}"
        return cls(name, media_type, content, gzip.compress(content, 9))

    def route(self) -> Route:
        def send(request: Request) -> Response:
            headers = {"Cache-Control": "max-age=31536000, immutable", "Vary": "Accept-Encoding"}
            if "gzip" not in request.headers.get("accept-encoding", ""):
                return Response(self.text, headers=headers, media_type=self.media_type)
            return Response(
                self.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.media_type
            )

        return Route(f"/static/{self.name}", send)


@dataclass(slots=True)
class _Modules:
    """The modules in the order in which they need each other, with their texts, and what others take of each."""

    texts: dict[Path, str] = field(default_factory=dict)
    taken: dict[Path, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, path: Path) -> None:
        """Add a module behind those that it needs."""
        if path in self.texts:
            return

        def take(found: re.Match[str]) -> str:
            needed = (path.parent / found[2]).resolve()
            self.add(needed)
            self.taken[needed] |= {name.strip() for name in found[1].split(",")}
            return f"const {{{found[1]}}}=M[{needed.name!r}];\n"

        body = _IMPORT.sub(take, path.read_text())
        self.texts[path] = _EXPORT.sub("", body)

    def write(self) -> str:
        *needed, main = self.texts
        scoped = [
            f"M[{path.name!r}]=(()=>{{\n{self.texts[path]}\nreturn{{{','.join(sorted(self.taken[path]))}}};}})();\n"
            for path in needed
        ]
        # the last one is no function, since it awaits
        return "".join(["const M={};\n", *scoped, self.texts[main], "export{M as modules};\n"])


@cache
def bundle_script() -> BundledFile:
    """All modules that `main.js` needs; it exports them by their file names, for tests."""
    modules = _Modules()
    modules.add((STATIC / "page" / MAIN).resolve())
    return BundledFile.of("js", "text/javascript", _minify(modules.write(), "<script type=module>", "</script>"))


@cache
def bundle_style() -> BundledFile:
    """All style sheets of the page."""
    sheets = [(STATIC / "style" / f"{name}.css").read_text() for name in SHEETS]
    return BundledFile.of("css", "text/css", _minify("\n".join(sheets), "<style>", "</style>"))


def _minify(text: str, before: str, behind: str) -> str:
    """The same without comments and needless spaces, by parsers of both languages, which take them within HTML."""
    # those that document something would stay
    made = minify(f"{before}{_COMMENT.sub('', text)}{behind}", minify_js=True, minify_css=True, keep_closing_tags=True)
    return made[made.index(">") + 1 : made.rindex("<")]

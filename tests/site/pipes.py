"""A pipe inside of code in a table: written with a backslash, as the repository's site has it, and shown without."""

from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString


class ShowPipes(Treeprocessor):
    def run(self, root: Element) -> None:
        for cell in root.iter("td"):
            for code in cell.iter("code"):
                code.text = AtomicString((code.text or "").replace(r"\|", "|"))


class Pipes(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # behind the one that makes code of backticks, at 20
        md.treeprocessors.register(ShowPipes(md), "pipes", 5)


def makeExtension() -> Extension:
    return Pipes()

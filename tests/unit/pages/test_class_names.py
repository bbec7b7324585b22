"""One name is one thing: who searches for a class finds the one that is meant."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("cdc", "connect", "sinks", "snapshots")


def test_no_two_public_classes_share_a_name() -> None:
    trees = (ast.parse(path.read_text()) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert names
    assert [name for name, times in names.items() if times > 1 and not name.startswith("_")] == []

"""Where an expression stands in the user's SQL."""

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, from 1; 0 where sqlglot did not keep them."""

    line: int
    column: int


def place_of(node: exp.Expr) -> Place:
    """The place of an expression's name, or of its first part that has one: an operator has none of its own."""
    for part in node.walk(bfs=False):
        if "line" in part.meta:
            # sqlglot keeps the column at which a token ends
            length = part.meta["end"] - part.meta["start"]
            return Place(part.meta["line"], max(part.meta["col"] - length, 1))
    return Place(0, 0)

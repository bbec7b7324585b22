"""What a part of a statement is called, and where it stands in the user's SQL."""

from dataclasses import dataclass

from sqlglot import exp

from cdc.views.statement.tree.writing import walk_within

Kind = type[exp.Expr] | str
"""What lists name: a node class of sqlglot, or the name of a function that sqlglot has no class for."""


def classes(names: str) -> frozenset[type[exp.Expr]]:
    """Node classes of sqlglot, by their names with blanks between."""
    return frozenset(getattr(exp, name) for name in names.split())


def kinds(names: str) -> frozenset[Kind]:
    """The same, with names of functions in small letters among them."""
    return frozenset(getattr(exp, name) if name[0].isupper() else name for name in names.split())


def kind_of(node: exp.Expr) -> Kind:
    """The kind under which an expression is listed."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else type(node)


def name_of(node: exp.Expr) -> str:
    """The name of an expression for the user: of a function, its SQL name."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Func) and type(node).sql_names():
        return type(node).sql_name().lower()
    return type(node).__name__.lower()


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, from 1; 0 where sqlglot did not keep them."""

    line: int
    column: int


def place_of(node: exp.Expr) -> Place:
    """The place of an expression's name, or of its first part that has one: an operator has none of its own."""
    for part in walk_within(node):
        if "line" in part.meta:
            # sqlglot keeps the column at which a token ends
            length = part.meta["end"] - part.meta["start"]
            return Place(part.meta["line"], max(part.meta["col"] - length, 1))
    return Place(0, 0)

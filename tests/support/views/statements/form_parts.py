"""Parts that the forms of statements have in common."""

from dataclasses import dataclass

from tests.support.views.statements.grammar_values import SHAPES, Source, ValueGrammar


@dataclass(slots=True)
class Forms(ValueGrammar):
    """Writes parts of forms."""

    def table(self, alias: str) -> tuple[str, Source]:
        """A table under this name, and its columns."""
        name = self._pick(*SHAPES)
        return f"{name} {alias}", Source(alias, SHAPES[name])

    def number(self, source: Source, *, computed: bool = False) -> str:
        return self._number([source], 1) if computed else self._column("n", [source])

    def cut(self, order: str) -> str:
        """An end that leaves some rows."""
        some = self.random.randint(1, 3)
        return f"ORDER BY {order} {self._pick(f'LIMIT {some}', f'LIMIT {some} OFFSET 1', f'OFFSET {some}')}"

    def length(self) -> int:
        return self.random.choice([30, 100, 300])

    def joined(self, word: str) -> tuple[str, Source, Source]:
        (one, first), (two, second) = self.table("t1"), self.table("t2")
        return f"{one} {word} {two} ON {self.number(second)} = {self.number(first)}", first, second

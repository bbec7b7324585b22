"""The table of all checks, as the page DOCTOR.md has it: `python -m cdc.run.doctor.page` prints it."""

from collections.abc import Iterator
from typing import Final

from cdc.run.doctor.check import registered_checks

HEAD: Final = ("check", "what has to hold", "else", "severity")


def _rows() -> Iterator[tuple[str, ...]]:
    for check in registered_checks():
        yield f"**{check.name}**", check.question.removesuffix("."), check.why, check.severity


def to_markdown() -> str:
    """Write all checks as a table of Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(to_markdown())  # noqa: T201

"""What a dialog says before a verb: what happens, what it costs, what stays, and why it would fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Document = Mapping[str, Any]
"""A status document as JSON values."""
Lines = Sequence[str]
Do = Callable[[], Lines]
"""Does the verb; returns what became of it, in lines. Raises CdcError when it cannot be done."""


@dataclass(frozen=True, slots=True)
class VerbQuestion:
    """A verb on one object, as things stand now. `check`: why it would fail or do nothing; None if it can be done.

    `command`: the same on the command line. `button`: the word that agrees.
    """

    title: str
    what: Sequence[str]
    cost: str
    stays: str
    command: str
    button: str
    check: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

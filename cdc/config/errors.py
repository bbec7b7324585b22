"""Problems of a configuration file: all at once, each with its line."""

from dataclasses import dataclass

from cdc.core.errors import ConfigurationError, SeveralErrors


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem (`text`, half a sentence) with the key `where` on a line of a file."""

    line: int
    where: str
    text: str
    file: str = "cdc.yaml"

    def __str__(self) -> str:
        key = f" {self.where}:" if self.where else ""
        return f"{self.file}:{self.line}:{key} {self.text}"


class InvalidSettingsError(ConfigurationError):
    """The configuration file is not valid; `problems` has all problems, `str` one on each line."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.problems))


class SettingsRefusedError(SeveralErrors, ConfigurationError):
    """The configuration file is valid, but some of it does not fit the tables or the lake that are there."""

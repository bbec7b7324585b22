"""Lines about the work that say more than their text: whoever prints a log gives them their level."""

from typing import Self

from cdc.core.errors import CdcError


class WarningLine(str):
    """Something is wrong, and the work goes on, or waits for a repair. `code`: of its error, if it is one's."""

    code: str | None = None

    @classmethod
    def of(cls, text: object, error: object) -> Self:
        """A line with the code of an error."""
        line = cls(text)
        line.code = error.code if isinstance(error, CdcError) else None
        return line


class ErrorLine(WarningLine):
    """Something has ended that goes on no more by itself."""

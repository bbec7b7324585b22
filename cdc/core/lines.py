"""Lines about the work that say more than their text: whoever prints a log gives them their level."""


class WarningLine(str):
    """Something is wrong, and the work goes on, or waits for a repair."""

    __slots__ = ()


class ErrorLine(str):
    """Something has ended that goes on no more by itself."""

    __slots__ = ()

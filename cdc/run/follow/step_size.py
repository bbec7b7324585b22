"""How many changes go to a follower in one step: as many as it takes in some seconds, by its last step.

What fails is done again as a whole. Where the follower's server is killed each five minutes, a longer step never ends:
beside 1,500 transactions a second, saved searches with a backlog of seven minutes came no further in twenty.
"""

from typing import Final

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one table's changes, by their files in the lake: some 100,000 rows, which take twenty times as much while several
versions become one."""
FIRST_BYTES: Final = 1024 * 1024
LEAST_BYTES: Final = 128 * 1024
STEP_SECONDS: Final = 10.0


class StepSize:
    """`most`: bytes of one table's changes that the next step may have."""

    def __init__(self) -> None:
        self.most = FIRST_BYTES

    def note(self, size: int, seconds: float) -> None:
        """A step of so many bytes took so long. One that was shorter than STEP_SECONDS never makes the next smaller:
        of few bytes, most of the time is not theirs."""
        if size and seconds > 0:
            fits = round(min(max(size / seconds * STEP_SECONDS, LEAST_BYTES), MOST_BYTES))
            self.most = fits if seconds > STEP_SECONDS else max(self.most, fits)

"""How much goes to a follower in one step: as much as it takes in some seconds, by its last step.

What fails is done again as a whole. Where a part is killed each five minutes, a longer step never ends: beside 1,500
transactions a second, saved searches with a backlog of seven minutes came no further in twenty, and the lake's own
batch of 200,000 changes took more than five minutes and a gigabyte.
"""

from dataclasses import dataclass
from typing import Final, Self

STEP_SECONDS: Final = 10.0
MOST_RUN_BYTES: Final = 256 * 1024 * 1024
"""Of messages that a process reads at once, the driver or a task: a larger run is read by a Spark job, or cut again."""


@dataclass(frozen=True, slots=True)
class StepBounds:
    """What a step may be: the `first` one, the `least` and the `most`, in bytes or in changes."""

    first: int
    least: int
    most: int

    @classmethod
    def of_changes(cls, most: int) -> Self:
        """Of the lake's steps, in changes: the first ones are read by the driver, without a Spark job.

        Of tables with a history, the driver reads all. It needs a gigabyte for 200,000 changes.
        """
        return cls(min(20_000, most), min(2_000, most), most)


FEED_BYTES: Final = StepBounds(1024 * 1024, 128 * 1024, 4 * 1024 * 1024)
"""Of one table's changes, by their files in the lake: the most are some 100,000 rows, which take twenty times as much
while several versions become one."""


class StepSize:
    """`most`: how much the next step may have."""

    def __init__(self, bounds: StepBounds) -> None:
        self.most = bounds.first
        self.bounds = bounds

    def note(self, size: int, seconds: float) -> None:
        """A step of this size took so long. One that was shorter than STEP_SECONDS never makes the next smaller: of a
        small one, most of the time is not its size's."""
        if size and seconds > 0:
            fits = round(min(max(size / seconds * STEP_SECONDS, self.bounds.least), self.bounds.most))
            self.most = fits if seconds > STEP_SECONDS else max(self.most, fits)

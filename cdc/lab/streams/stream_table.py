"""Stream-table: each view of a page with the town where its user lives then, from a copy of the table of profiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

VIEWS: Final = 120
USERS: Final = tuple(f"user {number}" for number in range(6))
TOWNS: Final = ("Bern", "Oslo", "Rome")

ViewTown = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A row of the table of profiles is written."""

    user: str
    town: str

    @property
    def key(self) -> str:
        return self.user


@dataclass(frozen=True, slots=True)
class PageView:
    """A user views a page."""

    id: int
    user: str

    @property
    def key(self) -> str:
        return self.user


def plan_views(random: Random) -> list[ProfileChange | PageView]:
    """Plan views, and users who move meanwhile, the first one at once."""
    towns = {user: random.choice(TOWNS) for user in USERS}
    events: list[ProfileChange | PageView] = [ProfileChange(user, town) for user, town in towns.items()]
    for id in range(VIEWS):
        user = random.choice(USERS)
        events.append(PageView(id, user))
        if id % 8 == 0:
            towns[user] = random.choice([town for town in TOWNS if town != towns[user]])
            events += [ProfileChange(user, towns[user]), PageView(VIEWS + id, user)]
    return events


def look_back(events: Sequence[ProfileChange | PageView]) -> set[ViewTown]:
    """The right answer: for each view, go back to the newest change of its user's profile."""
    found = set()
    for place, view in enumerate(events):
        if isinstance(view, PageView):
            before = (each for each in reversed(events[:place]) if isinstance(each, ProfileChange))
            found.add((view.id, next(each.town for each in before if each.user == view.user)))
    return found


class ViewsWithTowns:
    """Keeps a copy of the table, and follows its changes; or not, after the first view."""

    def __init__(self, *, follows_changes: bool) -> None:
        self.found: set[ViewTown] = set()
        self._follows_changes = follows_changes
        self._towns: dict[str, str] = {}

    @property
    def kept(self) -> int:
        return len(self._towns)

    def take(self, event: ProfileChange | PageView) -> None:
        match event:
            case PageView():
                self.found.add((event.id, self._towns[event.user]))
            case ProfileChange() if self._follows_changes or not self.found:
                self._towns[event.user] = event.town

    def end(self) -> None:
        pass

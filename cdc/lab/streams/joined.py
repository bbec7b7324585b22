"""Three joins of streams, and their events."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, Final, NamedTuple

import duckdb
import pyarrow as pa

SEARCHES: Final = 60
HOUR: Final = 60.0  # times are minutes
LATEST: Final = 10.0  # an event comes less than so long after it happened
VIEWS: Final = 120
TOWNS: Final = ("Bern", "Oslo", "Rome")
CHANGES: Final = 160
USERS: Final = tuple(f"user {number}" for number in range(6))


class StreamJoin(ABC):
    """A join of two streams. It keeps too little, or all that it needs: the first or the second of its `ways`."""

    name: ClassVar[str]
    ways: ClassVar[tuple[str, str]]
    query: ClassVar[str]

    def __init__(self, *, keeps_all: bool) -> None:
        self.found: set[Any] = set()
        self._keeps_all = keeps_all

    @classmethod
    def find_right(cls, events: Sequence[Any]) -> set[Any]:
        """Find the right answer by a query of all events at once: a table for each kind, with the place of each."""
        tables: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for place, event in enumerate(events):
            tables[type(event).__name__].append({**event._asdict(), "place": place})
        with duckdb.connect() as database:
            for name, rows in tables.items():
                database.register(name, pa.Table.from_pylist(rows))
            return set(database.execute(cls.query).fetchall())

    @property
    @abstractmethod
    def kept(self) -> int:
        """How many events or rows it keeps."""

    @abstractmethod
    def take(self, event: Any) -> None:
        """Take the next event; `found` are the rows until now."""

    def end(self) -> None:  # noqa: B027
        """Note that no event comes any more."""


class Search(NamedTuple):
    id: int
    at: float


class ResultClick(NamedTuple):
    id: int
    search: int
    at: float


Searching = Search | ResultClick


def plan_searches(random: Random) -> list[tuple[float, Searching]]:
    """Plan searches and clicks, each with the time when it comes, in that order.

    Of five searches one is overtaken by its click, one is not clicked, and one is clicked too late.
    """
    coming: list[tuple[float, Searching]] = []
    for id, at in enumerate(sorted(random.uniform(0, 10 * HOUR) for _ in range(SEARCHES))):
        kind = id % 5
        coming.append((at + (random.uniform(4, LATEST - 1) if kind == 0 else 0), Search(id, at)))
        waits = {0: [random.uniform(1, 3)], 1: [], 2: [random.uniform(HOUR + 1, 2 * HOUR)]}
        for wait in waits.get(kind) or [random.uniform(1, HOUR - 1) for _ in range(random.randint(1, 3) * (kind > 2))]:
            coming.append((at + wait, ResultClick(len(coming), id, at + wait)))
    return sorted(coming, key=lambda each: each[0])


class SearchesWithClicks(StreamJoin):
    """Stream-stream. Keeps searches for an hour; or clicks, too, until no search from before them can come."""

    name = "stream-stream, searches and clicks"
    ways = ("searches kept", "both kept")
    query = """
        SELECT s.id, c.id FROM Search s
        LEFT JOIN ResultClick c ON c.search = s.id AND c."at" - s."at" <= 60"""

    def __init__(self, *, keeps_all: bool) -> None:
        super().__init__(keeps_all=keeps_all)
        self._searches: dict[int, Search] = {}
        self._clicks: list[ResultClick] = []
        self._newest = 0.0

    @property
    def kept(self) -> int:
        return len(self._searches) + len(self._clicks)

    def take(self, event: Searching) -> None:
        match event:
            case Search():
                self._searches[event.id] = event
                for click in self._clicks:
                    self._match(click)
            case ResultClick():
                self._match(event)
                if self._keeps_all:
                    self._clicks.append(event)
        self._newest = max(self._newest, event.at)
        self._expire(self._newest - LATEST)

    def end(self) -> None:
        self._expire(float("inf"))

    def _match(self, click: ResultClick) -> None:
        search = self._searches.get(click.search)
        if search and click.at - search.at <= HOUR:
            self.found.add((search.id, click.id))

    def _expire(self, complete: float) -> None:
        """Forget events that nothing can match any more, now that all has come that happened until `complete`."""
        clicked = {search for search, _ in self.found}
        for search in [each for each in self._searches.values() if each.at + HOUR < complete]:
            if search.id not in clicked:
                self.found.add((search.id, None))
            del self._searches[search.id]
        self._clicks = [click for click in self._clicks if click.at >= complete]


class ProfileChange(NamedTuple):
    """A row of the table of profiles is written."""

    user: str
    town: str


class PageView(NamedTuple):
    id: int
    user: str


Viewing = ProfileChange | PageView


def plan_views(random: Random) -> list[Viewing]:
    """Plan views, and users who move meanwhile, the first one at once."""
    towns = {user: random.choice(TOWNS) for user in USERS}
    events: list[Viewing] = [ProfileChange(user, town) for user, town in towns.items()]
    for id in range(VIEWS):
        user = random.choice(USERS)
        events.append(PageView(id, user))
        if id % 8 == 0:
            towns[user] = random.choice([town for town in TOWNS if town != towns[user]])
            events += [ProfileChange(user, towns[user]), PageView(VIEWS + id, user)]
    return events


class ViewsWithTowns(StreamJoin):
    """Stream-table. Keeps a copy of the table as it was at the first view; or follows its changes."""

    name = "stream-table, views and profiles"
    ways = ("table copied once", "changes followed")
    query = """
        SELECT v.id, p.town FROM PageView v
        ASOF JOIN ProfileChange p ON p."user" = v."user" AND v.place > p.place"""

    def __init__(self, *, keeps_all: bool) -> None:
        super().__init__(keeps_all=keeps_all)
        self._towns: dict[str, str] = {}

    @property
    def kept(self) -> int:
        return len(self._towns)

    def take(self, event: Viewing) -> None:
        match event:
            case PageView():
                self.found.add((event.id, self._towns[event.user]))
            case ProfileChange() if self._keeps_all or not self.found:
                self._towns[event.user] = event.town


class PostChange(NamedTuple):
    """A user posts, or deletes the post."""

    id: int
    sender: str
    is_there: bool


class FollowChange(NamedTuple):
    """A user begins to follow another, or ends it."""

    follower: str
    followee: str
    is_there: bool


Posting = PostChange | FollowChange


def plan_posts(random: Random) -> list[Posting]:
    """Plan posts, of which some are deleted, and users who follow others, of whom some end it."""
    events: list[Posting] = []
    posts: list[PostChange] = []
    follows = set[tuple[str, str]]()
    for id in range(CHANGES):
        follower, followee = random.sample(USERS, 2)
        if id % 4 == 3:
            follows ^= {(follower, followee)}
            events.append(FollowChange(follower, followee, (follower, followee) in follows))
        elif id % 8 == 6:
            events.append(posts.pop(random.randrange(len(posts)))._replace(is_there=False))
        else:
            posts.append(PostChange(id, followee, True))
            events.append(posts[-1])
    return events


class HomeTimelines(StreamJoin):
    """Table-table: the posts of those whom each user follows.

    Keeps only who follows whom, for those who follow when something is posted; or both tables.
    """

    name = "table-table, posts and follows"
    ways = ("joined when a post comes", "when either changes")
    query = """
        WITH posts AS (SELECT id, sender FROM PostChange GROUP BY ALL HAVING arg_max(is_there, place)),
        follows AS (SELECT follower, followee FROM FollowChange GROUP BY ALL HAVING arg_max(is_there, place))
        SELECT follower, id FROM posts JOIN follows ON followee = sender"""

    def __init__(self, *, keeps_all: bool) -> None:
        super().__init__(keeps_all=keeps_all)
        self._posts: defaultdict[str, set[int]] = defaultdict(set)
        self._followers: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def kept(self) -> int:
        return sum(len(each) for table in (self._posts, self._followers) for each in table.values())

    def take(self, event: Posting) -> None:
        change = set.add if event.is_there else set.discard
        match event:
            case PostChange():
                if self._keeps_all:
                    change(self._posts[event.sender], event.id)
                for follower in self._followers[event.sender]:
                    change(self.found, (follower, event.id))
            case FollowChange():
                change(self._followers[event.followee], event.follower)
                for post in self._posts[event.followee]:
                    change(self.found, (event.follower, post))

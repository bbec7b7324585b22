"""Table-table: the home timeline of each user, which are the posts of those whom the user follows."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

CHANGES: Final = 160
PEOPLE: Final = tuple(f"user {number}" for number in range(6))
QUERY: Final = "SELECT follower, id FROM posts JOIN follows ON followee = sender"

T = TypeVar("T")
FollowerPost = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PostChange:
    """A user posts, or deletes the post."""

    id: int
    sender: str
    is_there: bool

    @property
    def key(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class FollowChange:
    """A user begins to follow another, or ends it."""

    follower: str
    followee: str
    is_there: bool

    @property
    def key(self) -> str:
        return f"{self.follower} {self.followee}"


def plan_posts(random: Random) -> list[PostChange | FollowChange]:
    """Plan posts, of which some are deleted, and users who follow others, of whom some end it."""
    events: list[PostChange | FollowChange] = []
    posts: list[PostChange] = []
    follows = set[tuple[str, str]]()
    for id in range(CHANGES):
        follower, followee = random.sample(PEOPLE, 2)
        if id % 4 == 3:
            follows ^= {(follower, followee)}
            events.append(FollowChange(follower, followee, (follower, followee) in follows))
        elif id % 8 == 6:
            post = posts.pop(random.randrange(len(posts)))
            events.append(PostChange(post.id, post.sender, False))
        else:
            posts.append(PostChange(id, followee, True))
            events.append(posts[-1])
    return events


def ask_tables(events: Sequence[PostChange | FollowChange]) -> set[FollowerPost]:
    """The right answer: bring two tables to their end, and ask the query."""
    posts = set[tuple[int, str]]()
    follows = set[tuple[str, str]]()
    for event in events:
        match event:
            case PostChange(id, sender, is_there):
                _put(posts, (id, sender), is_there=is_there)
            case FollowChange(follower, followee, is_there):
                _put(follows, (follower, followee), is_there=is_there)
    with duckdb.connect() as database:
        database.register("posts", pa.Table.from_pylist([{"id": id, "sender": sender} for id, sender in posts]))
        database.register("follows", pa.Table.from_pylist([{"follower": a, "followee": b} for a, b in follows]))
        return {(follower, id) for follower, id in database.execute(QUERY).fetchall()}


class HomeTimelines:
    """Keeps both tables; or only who follows whom, for those who follow when something is posted."""

    def __init__(self, *, keeps_posts: bool) -> None:
        self.found: set[FollowerPost] = set()
        self._keeps_posts = keeps_posts
        self._posts: defaultdict[str, set[int]] = defaultdict(set)
        self._followers: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def kept(self) -> int:
        return sum(len(each) for table in (self._posts, self._followers) for each in table.values())

    def take(self, event: PostChange | FollowChange) -> None:
        match event:
            case PostChange():
                if self._keeps_posts:
                    _put(self._posts[event.sender], event.id, is_there=event.is_there)
                for follower in self._followers[event.sender]:
                    _put(self.found, (follower, event.id), is_there=event.is_there)
            case FollowChange():
                _put(self._followers[event.followee], event.follower, is_there=event.is_there)
                for post in self._posts[event.followee]:
                    _put(self.found, (event.follower, post), is_there=event.is_there)

    def end(self) -> None:
        pass


def _put(these: set[T], one: T, *, is_there: bool) -> None:
    if is_there:
        these.add(one)
    else:
        these.discard(one)

"""A leader with posts and followers, and the timelines that are made of them: its contents anywhere."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import duckdb
import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.bench.ground import Ground
from tests.bench.world.contents import Contents
from tests.bench.world.parts import Parts
from tests.bench.world.source import FRESH_KEYS, SLICE, Source, Written

TABLES = ("follows", "posts")
KEY = ("follower_id", "post_id")
COLUMNS = (*KEY, "author_id", "body", "posted_at")
STATEMENT: LiteralString = (
    "SELECT f.follower_id, p.id AS post_id, p.author_id, p.body, p.posted_at"
    " FROM public.follows f JOIN public.posts p ON p.author_id = f.followed_id"
)
CELEBRITY, NOBODY = 1, 0
"""An author whom many follow, and one whom nobody does."""

_POST: LiteralString = "INSERT INTO posts SELECT {id}, %s, 'a post ' || md5(random()::text), clock_timestamp()"
_FRESH: LiteralString = f"(SELECT greatest(max(id) + 1, {FRESH_KEYS}) FROM posts)"
_BOUND = "(follower_id % 1000003 + 1) * (post_id % 1000003 + 1) * ({0})"
_POSTGRES: Mapping[str, str] = {
    "follower_id": "follower_id",
    "post_id": "post_id",
    "author_id": _BOUND.format("author_id % 1000003"),
    "body": _BOUND.format("('x' || substr(md5(body), 1, 7))::bit(28)::bigint % 1000003"),
    "posted_at": _BOUND.format("(extract(epoch FROM posted_at) * 1000000)::bigint % 1000003"),
}
_DUCKDB: Mapping[str, str] = {
    **_POSTGRES,
    "body": _BOUND.format("('0x' || substr(md5(body), 1, 7))::BIGINT % 1000003"),
    "posted_at": _BOUND.format("epoch_us(posted_at) % 1000003"),
}


@dataclass(frozen=True, slots=True)
class Network:
    """The database; `timeline` there is one that its writer keeps up itself, post by post."""

    source: Source

    def touch(self, names: Sequence[str]) -> Written:
        """A post that nobody sees."""
        return self.post(NOBODY)

    def post(self, author: int) -> Written:
        """A post, in a transaction of its own."""
        with self.source.connection() as connection, connection.transaction():
            connection.execute(_POST.format(id=_FRESH).encode(), (author,))
            return Written(_xid(connection), 1)

    def post_and_fan_out(self, author: int) -> float:
        """A post, and a row of the timeline for each follower, in one transaction; the seconds that takes."""
        with self.source.connection() as connection:
            began = time.monotonic()
            with connection.transaction():
                row = connection.execute(f"{_POST.format(id=_FRESH)} RETURNING id".encode(), (author,)).fetchone()
                assert row is not None
                connection.execute(f"INSERT INTO timeline {STATEMENT} WHERE p.id = %s".encode(), (row[0],))
            return time.monotonic() - began

    def fan_out_missing(self) -> None:
        """Write what posts without a fan-out have left out."""
        posted = f"INSERT INTO timeline {STATEMENT} WHERE p.id >= %s ON CONFLICT DO NOTHING"
        with self.source.connection() as connection:
            connection.execute(posted.encode(), (FRESH_KEYS,))
            connection.execute("VACUUM ANALYZE timeline")

    def contents(self, relation: str) -> Contents:
        """Timelines as Postgres has them: of a relation, or of a statement in brackets."""
        with self.source.connection() as connection:
            row = connection.execute(f"SELECT {_sums(_POSTGRES)} FROM {relation} AS timelines".encode()).fetchone()
        assert row is not None
        return _contents(row)

    def truth(self) -> Contents:
        """What the statement gives in Postgres now."""
        return self.contents(f"({STATEMENT})")


def network_of(ground: Ground, parts: Parts, sizes: Mapping[str, int]) -> Network:
    """A network with these `posts`, `follows`, `people` and `fans`."""
    ground.say(f"network: {sizes['posts']:,} posts, {sizes['follows']:,} follows")
    source = Source.made(parts, "network")
    with source.connection() as connection:
        connection.execute(Path(__file__).with_suffix(".sql").read_bytes())
        follow = "CALL network_follow(%s, %s, %s)"
        connection.execute(follow, (sizes["people"], sizes["fans"], sizes["follows"]))
        for first in range(1, sizes["posts"] + 1, SLICE):
            last = min(first + SLICE - 1, sizes["posts"])
            connection.execute("CALL network_post(%s, %s, %s)", (sizes["people"], first, last))
        connection.execute("VACUUM ANALYZE follows")
        connection.execute("VACUUM ANALYZE posts")
        connection.execute(f"INSERT INTO timeline {STATEMENT}".encode())
    return Network(source)


def in_delta(folder: Path, version: int) -> Contents:
    """Timelines in a Delta table at a version."""
    query = QueryBuilder().register("found", DeltaTable(str(folder), version=version))
    rows = query.execute(f"SELECT {', '.join(COLUMNS)} FROM found")
    with duckdb.connect() as connection:
        connection.register("rows", pa.RecordBatchReader.from_stream(rows))
        row = connection.execute(f"SELECT {_sums(_DUCKDB)} FROM rows").fetchone()
    assert row is not None
    return _contents(row)


def _xid(connection: "psycopg.Connection[Any]") -> int:
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row is not None
    return int(row[0])


def _sums(values: Mapping[str, str]) -> str:
    return ", ".join(["count(*)", *(f"coalesce(sum({values[column]}), 0)" for column in COLUMNS)])


def _contents(row: Sequence[Any]) -> Contents:
    return Contents(int(row[0]), dict(zip(COLUMNS, map(int, row[1:]), strict=True)))

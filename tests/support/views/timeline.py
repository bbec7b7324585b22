"""The timeline: a row for each follower and post, unless the author has blocked the follower."""

from datetime import UTC, datetime, timedelta

from cdc.core.table import Kind
from cdc.views.definition import ViewDefinition
from tests.support.views.random_history import side

_USERS = range(5)
_TIMES = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=at) for at in range(20)]

SIDES = (
    side("users", ["id"], {"id": (Kind.INTEGER, _USERS), "name": (Kind.TEXT, ["ann", "bob", "é", None])}),
    side(
        "follows",
        ["follower_id", "followee_id"],
        {
            "follower_id": (Kind.INTEGER, _USERS),
            "followee_id": (Kind.INTEGER, _USERS),
            "since": (Kind.TIMESTAMPTZ, _TIMES),
        },
    ),
    side(
        "posts",
        ["id"],
        {
            "id": (Kind.BIGINT, range(12)),
            "user_id": (Kind.INTEGER, [None, *_USERS]),
            "text": (Kind.TEXT, ["x", "", None]),
            "at": (Kind.TIMESTAMPTZ, _TIMES),
        },
    ),
    side(
        "blocks",
        ["blocker_id", "blocked_id"],
        {"blocker_id": (Kind.INTEGER, _USERS), "blocked_id": (Kind.INTEGER, _USERS)},
    ),
)
TIMELINE = ViewDefinition.of(
    "social.timeline",
    "SELECT f.follower_id AS user_id, p.id AS post_id, u.name AS author, p.text, p.at FROM follows f"
    " JOIN posts p ON p.user_id = f.followee_id JOIN users u ON u.id = p.user_id"
    " LEFT ANTI JOIN blocks b ON b.blocker_id = p.user_id AND b.blocked_id = f.follower_id",
    ["user_id", "post_id"],
)
FEED = ViewDefinition.of(
    "social.feed",
    "SELECT user_id, count(*) AS posts, max(at) AS newest FROM social.timeline GROUP BY user_id",
    ["user_id"],
)
PROFILE = ViewDefinition.of(
    "social.profile",
    "SELECT u.id, u.name, sort_array(collect_list(struct(p.at, p.id, p.text)), false) AS newest FROM users u"
    " LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at DESC, id DESC) AS number FROM posts) p"
    " ON p.user_id = u.id AND p.number <= 3 GROUP BY u.id, u.name",
    ["id"],
)
VIEWS = (TIMELINE, FEED, PROFILE)

"""Clicks in windows of time: one after the other, overlapping, and sessions."""

from datetime import UTC, datetime, timedelta

from cdc.core.table import Kind
from cdc.views.definition import ViewDefinition
from tests.support.views.random_history import side

_TIMES = [
    None,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    *(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at) for at in (0, 59, 60, 61, 149, 150, 299, 300, 601)),
]
_PAGES = range(3)

SIDES = (
    side("pages", ["id"], {"id": (Kind.INTEGER, _PAGES), "name": (Kind.TEXT, ["a", "b", None])}),
    side(
        "clicks",
        ["id"],
        {
            "id": (Kind.BIGINT, range(10)),
            "page_id": (Kind.INTEGER, [None, *_PAGES]),
            "at": (Kind.TIMESTAMPTZ, _TIMES),
        },
    ),
)
VIEWS = (
    ViewDefinition.of(
        "clicks.minutes",
        "SELECT window.start AS minute, window.end, count(*) AS clicks FROM clicks"
        " GROUP BY window(at, '1 minute', '1 minute', '10 seconds')",
        ["minute"],
    ),
    ViewDefinition.of(
        "clicks.overlapping",
        "SELECT window.start AS begin, c.page_id, window, count(*) AS clicks FROM clicks c WHERE c.page_id IS NOT NULL"
        " GROUP BY window(c.at, '5 minutes', '150 seconds'), c.page_id HAVING count(*) > 1",
        ["begin", "page_id"],
    ),
    ViewDefinition.of(
        "clicks.of_pages",
        "SELECT window(c.at, '2 minutes', '90 seconds').start AS begin, p.name, collect_list(c.id) AS clicks"
        " FROM pages p LEFT JOIN clicks c ON c.page_id = p.id WHERE p.name IS NOT NULL"
        " GROUP BY window(c.at, '2 minutes', '90 seconds'), p.name",
        ["begin", "name"],
    ),
    ViewDefinition.of(
        "clicks.sliding",
        "SELECT window.start AS begin, sum(page_id) AS sum FROM clicks GROUP BY window(at, '2 minutes', '40 seconds')",
        ["begin"],
    ),
    ViewDefinition.of(
        "clicks.windows_of", "SELECT id, window(at, 'interval 1 hour 30 minutes') AS w FROM clicks", ["id"]
    ),
    ViewDefinition.of(
        "clicks.sessions",
        "SELECT page_id, session_window.start AS begin, session_window.end AS end, count(*) AS clicks FROM clicks"
        " WHERE page_id IS NOT NULL GROUP BY session_window(at, '1 minute'), page_id",
        ["page_id", "begin"],
    ),
)

"""The same question, asked of a database and of all that this project derives from it: a lake, a view, an index.

Each answers for its own position, so when a day ends the answers differ. When each has come to the position at which it
ended, they are one answer, while writers go on; and a table and a view at one cut agree at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from cdc.lab.derived.orders import ORDERS, TABLE, VIEWS, Answers, OrdersWriter, Revenue
from cdc.lab.derived.pipeline import keep_pipeline
from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.timeline import Span, Timeline
from cdc.lab.lesson import Findings
from cdc.lab.waiting import in_background, read_clock, run_at_once, wait_for
from cdc.lab.workplace import Workplace
from cdc.run.pipeline import Pipeline
from cdc.run.read.tokens import wait_for_token

DAYS: Final = 3
USUAL: Final = 10  # transactions of a day at least, before its last one
PATIENCE_SECONDS: Final = 120.0
SOURCE: Final = "Postgres"
WHEN: Final = ("days that differ at their end", "days that differ after cdc wait")
FOLLOWERS: Final = {"lake": "lake", "view": "views", "index": "search"}
"""Stores that follow it, by the names that `cdc wait` has for them."""


@dataclass(frozen=True, slots=True)
class DayAnswers:
    """The answers of each store for a day: when it had ended, and when each had come to its end, `behind` ms later.

    `differs_at_cut`: whether the table of the lake and the view, at one cut, answered differently at these two times.
    """

    at_once: Mapping[str, Revenue]
    afterwards: Mapping[str, Revenue]
    behind: Mapping[str, float]
    differs_at_cut: tuple[bool, bool]


def run(place: Workplace) -> Findings:
    dsn = place.database("unbundled")
    session = place.session(dsn)
    session.execute(TABLE)
    place.say("cdc bootstrap and cdc follow: a table, a view on it, an index. Spark takes its time to start")
    settings = place.keep(keep_pipeline(place, dsn, (str(ORDERS),), VIEWS))
    answers, writer = Answers(Pipeline(settings), session, place.search), OrdersWriter(place.session(dsn), place.random)
    place.say("orders are written all the time; when a day ends, each store is asked for its revenue, and again when")
    place.say("`cdc wait` has seen the store pass the token of the end, which is the source's position then")
    with in_background([writer.go_on]):
        days = [_end_day(writer, answers, day) for day in range(DAYS)]
    at_once, afterwards = count_answers([day.at_once for day in days]), count_answers([day.afterwards for day in days])
    return Findings(
        columns=("answers compared", "days", *WHEN, "ms waited, median"),
        rows=count_differences(days),
        sentence=f"Asked for the same day when it ends, Postgres and {len(FOLLOWERS)} followers give {at_once} answers;"
        f" asked when each follower has come to the position of that end, {afterwards}, while writers go on.",
        figure=_draw(days[-1].behind),
    )


def count_differences(days: Sequence[DayAnswers]) -> list[tuple[object, ...]]:
    """For each follower, on how many days it answered otherwise than the database, and how long it was behind."""
    rows: list[tuple[object, ...]] = []
    for store in FOLLOWERS:
        at_once = sum(day.at_once[store] != day.at_once[SOURCE] for day in days)
        afterwards = sum(day.afterwards[store] != day.at_once[SOURCE] for day in days)
        behind = round(median(day.behind[store] for day in days))
        rows.append((name_comparison(store), len(days), at_once, afterwards, behind))
    at_once, afterwards = (sum(day.differs_at_cut[time] for day in days) for time in (0, 1))
    # both may be old: that they agree takes no waiting
    return [*rows, ("lake with view, at one cut", len(days), at_once, afterwards, "-")]


def name_comparison(store: str) -> str:
    return f"{store} with {SOURCE}"


def count_answers(asked: Sequence[Mapping[str, Revenue]]) -> int:
    """How many different answers one question had at most."""
    return max(len({tuple(sorted(answer.items())) for answer in answers.values()}) for answers in asked)


def _end_day(writer: OrdersWriter, answers: Answers, day: int) -> DayAnswers:
    """End a day, and ask every store for it: at once, and when it shows the last order of the day."""
    wait_for(lambda: writer.transactions >= USUAL, "orders")
    token, ended = writer.end_day(), read_clock()

    def ask_all() -> dict[str, Revenue]:
        asked = (answers.ask_postgres, answers.ask_lake, answers.ask_view, answers.ask_index)
        return {store: ask(day) for store, ask in zip((SOURCE, *FOLLOWERS), asked, strict=True)}

    def wait(follower: str) -> float:
        wait_for_token(answers.pipeline.reopened(), follower, token, PATIENCE_SECONDS)
        return read_clock() - ended

    at_once = ask_all()
    differs = answers.differs_at_one_cut(day)
    waited = run_at_once([partial(wait, follower) for follower in FOLLOWERS.values()])
    behind = {SOURCE: 0.0, **dict(zip(FOLLOWERS, waited, strict=True))}
    return DayAnswers(at_once, ask_all(), behind, (differs, answers.differs_at_one_cut(day)))


def _draw(waited: Mapping[str, float]) -> Timeline:
    """Draw the end of a day: how long each store answered without its last orders."""
    end = max(waited.values()) * 1.3
    late = [Span(store, 0.0, ms, "some orders of the day are missing", Tone.BAD) for store, ms in waited.items() if ms]
    whole = [Span(store, ms, end, "the day as it was", Tone.GOOD) for store, ms in waited.items()]
    title = "When a day has ended, each store answers for its own position, until it has come to that end"
    return Timeline(title, (SOURCE, *FOLLOWERS), spans=[*late, *whole])

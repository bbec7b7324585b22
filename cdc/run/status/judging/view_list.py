"""The views, each with its state, from the facts of a look; no I/O."""

from collections.abc import Collection, Iterator, Mapping

from cdc.config.settings import VIEWS, PipelineSettings
from cdc.core.position import format_lsn
from cdc.run.status.asking.facts import Facts, StreamLook
from cdc.run.status.judging.measures import Measures
from cdc.run.status.judging.states import Judged, judge_view
from cdc.run.status.judging.verifications import judge_comparison
from cdc.run.status.things import State, View, to_known_time
from cdc.views.statement.final_windows import LATE


def list_views(
    settings: PipelineSettings, facts: Facts, measures: Measures, reads: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, View]]:
    """The views by name, in the file's order. `reads`: by view, the tables that it reads."""
    look, stream = facts.views.value, facts.streams.get(VIEWS, StreamLook())
    described = {str(view.name): view for view in look.views} if look else {}
    lag = measures.followers[VIEWS].lag if settings.views else None
    for order, view in enumerate(settings.view_definitions, 1):
        name = str(view.name)
        found, late = described.get(name), described.get(f"{name}{LATE}")
        verified_at, verdict = judge_comparison(facts.verifications, name)
        judged = judge_view(found.state, stream, found.problem) if found else Judged(State.UNKNOWN, "not known")
        yield (
            name,
            View(
                order=order,
                state=judged.state,
                word=judged.word,
                since=to_known_time(judged.since),
                rows=found.rows if found else None,
                lsn=format_lsn(found.lsn) if found and found.lsn is not None else None,
                why=judged.why,
                shows_seconds=round(lag.seconds, 3) if lag else None,
                how="as a whole" if found and found.state.endswith("as a whole") else "by keys",
                groups_per_minute=measures.groups_per_minute(name),
                late=late.rows if late else None,
                tables=sorted(reads[name]),
                holders=[follower for follower in settings.followers if settings.holds(follower, view.name)],
                verified_at=verified_at,
                verdict=verdict,
            ),
        )

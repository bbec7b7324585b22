"""How long after its commit a post of a celebrity stands in the timelines of all who follow them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from tests.bench.goal import OURS, Goal, Limit, Measure, Readings, Scale, Sizes, Usage
from tests.bench.goals.derived.view_lane import ViewLane
from tests.bench.goals.lane import opened
from tests.bench.goals.measures import CPU, JOB_CPU, MEMORY, taken
from tests.bench.ground import Ground
from tests.bench.world.contents import differences
from tests.bench.world.derived import network
from tests.bench.world.derived.cards import SCHEMA
from tests.bench.world.derived.network import CELEBRITY, KEY, STATEMENT, TABLES, Network, network_of
from tests.bench.world.derived.views import view_cuts, view_folder
from tests.bench.world.ledger import ledger
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.visible import newest_cut

TIMELINE = "timeline"
FAN_OUT = "fan-out in Postgres"
POSTED = Measure("posted", "a post in all timelines (median): ours from its commit", "s")
LATEST = Measure("latest", "the slowest of the posts", "s")


@dataclass(frozen=True, slots=True)
class ViewTimelineStage:
    """A network, its timelines as a view, and as a table that the writer of a post writes to as well."""

    network: Network
    pipeline: Pipeline
    sizes: Sizes

    def run(self, side: str) -> Readings:
        return self._ours() if side == OURS else self._fan_out()

    def differences(self, side: str) -> list[str]:
        if side != OURS:
            return differences(TIMELINE, self.network.truth(), self.network.contents(TIMELINE))
        version = newest_cut(view_cuts(self.pipeline))[f"{SCHEMA}.{TIMELINE}"]
        found = network.in_delta(view_folder(self.pipeline, TIMELINE), version)
        return differences(TIMELINE, self.network.truth(), found)

    def _ours(self) -> Readings:
        with opened(ViewLane(self.pipeline, [TIMELINE]), self.network, self.pipeline, TABLES) as lane:
            for _ in range(self.sizes["warm"]):
                lane.wait(self.network.post(CELEBRITY).xid)
            posted = set[int]()
            with ledger(self.network.source) as book:
                with self.pipeline.meter.window() as window:
                    for _ in range(self.sizes["rounds"]):
                        posted.add(self.network.post(CELEBRITY).xid)
                        lane.wait(max(posted))
                commits = [commit for commit in book.commits() if commit.xid in posted]
            seen = lane.sight.seen_at(commits)
        return _readings([at - commit.at for commit, at in zip(commits, seen, strict=True)], window.usage)

    def _fan_out(self) -> Readings:
        self.network.fan_out_missing()
        for _ in range(self.sizes["warm"]):
            self.network.post_and_fan_out(CELEBRITY)
        with self.pipeline.meter.window() as window:
            seconds = [self.network.post_and_fan_out(CELEBRITY) for _ in range(self.sizes["rounds"])]
        return _readings(seconds, window.usage)


def _readings(seconds: list[float], usage: Usage) -> Readings:
    samples = list(zip(map(float, range(len(seconds))), seconds, strict=True))
    values = {"posted": median(seconds), "latest": max(seconds), **taken(usage)}
    return Readings(values, usage, {"posted": samples})


@contextmanager
def stage(ground: Ground, sizes: Sizes) -> Iterator[ViewTimelineStage]:
    """A network, and a pipeline with its timelines."""
    with ground.parts() as parts:
        found = network_of(ground, parts, sizes)
        views = {"views": {f"{SCHEMA}.{TIMELINE}": {"key": list(KEY), "sql": STATEMENT}}}
        pipeline = ground.pipeline(found.source, TABLES, settings=views)
        pipeline.bootstrap()
        yield ViewTimelineStage(found, pipeline, sizes)


VIEW_TIMELINE = Goal(
    "view-timeline",
    "One post in the timelines of all who follow its author",
    "10 M posts, 1 M follows, 10 k followers: ≤ 2 s",
    (OURS, FAN_OUT),
    (POSTED, LATEST, CPU, JOB_CPU, MEMORY),
    (Limit("posted", 2.0),),
    {
        Scale.SMALL: {
            "posts": 100_000,
            "follows": 20_000,
            "people": 10_000,
            "fans": 1_000,
            "rounds": 10,
            "warm": 3,
        },
        Scale.FULL: {
            "posts": 10_000_000,
            "follows": 1_000_000,
            "people": 1_000_000,
            "fans": 10_000,
            "rounds": 20,
            "warm": 5,
        },
    },
    stage,
)

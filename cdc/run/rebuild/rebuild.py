"""`cdc rebuild`: builds a follower, a table or a view anew beside the old one, and swaps them at one position."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cdc.config.settings import VIEWS
from cdc.core.errors import ConfigurationError, PreconditionError, RefusedError
from cdc.core.table import TableName
from cdc.core.text.lines import WarningLine
from cdc.progress import Progress
from cdc.run.lease import name_rebuild
from cdc.run.pipeline import Pipeline
from cdc.run.rebuild.in_place import InPlaceRebuild
from cdc.run.rebuild.index import IndexRebuild
from cdc.run.rebuild.table import TableRebuild
from cdc.run.rebuild.view import ViewRebuild
from cdc.run.rebuild.work import From, Rebuild, RebuildPlan, RebuildResult, Work
from cdc.run.rebuilds import drop_kept
from cdc.run.tables.selection import list_followed, list_held_by
from cdc.run.trouble_log import trouble_log
from cdc.run.views.kept_views import find_views_over
from cdc.run.views.view_definitions import define_present_views
from cdc.sinks.lake.settings import DeltaSettings
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.search.settings import SearchSettings
from cdc.views.order import sort_readable


@dataclass(frozen=True)
class AskedRebuild:
    """What somebody asks for: a follower, table or view; `tables` of a follower only; `source`: None to choose."""

    what: str
    tables: Sequence[TableName] = ()
    source: From | None = None


@dataclass(frozen=True)
class Rebuilder:
    """Does what is asked for, in each follower that it takes."""

    pipeline: Pipeline
    asked: AskedRebuild
    say: Callable[[str], None]
    progress: Progress

    def plan(self) -> list[RebuildPlan]:
        """What it would do. Raises ConfigurationError for an unknown name, RefusedError for what cannot be."""
        return [each.plan() for _, each in [*self._open(), *self._open_views_over()]]

    def run(self) -> list[RebuildResult]:
        """Build, compare, swap. Raises DivergenceError when what is built is not equal: nothing is swapped then."""
        return [
            self._alone(stream, each.run) for opens in (self._open, self._open_views_over) for stream, each in opens()
        ]

    def back_out(self) -> list[RebuildResult]:
        """Give up what is built, or return to what was there before. Raises PreconditionError if neither is."""
        done, refused = self._back_out(self._open())
        if refused and not done:
            raise refused[0]
        # what was given up has changed nothing that is read
        if any(each.rows for each in done):
            over = self._back_out(self._open_views_over())
            done, refused = [*done, *over[0]], [*refused, *over[1]]
        for refusal in refused:
            self.say(WarningLine.of(refusal, refusal))
        return done

    def _back_out(self, opened: Iterable[tuple[str, Rebuild]]) -> tuple[list[RebuildResult], list[PreconditionError]]:
        """The way back of each that has one, and why others have none."""
        done, refused = list[RebuildResult](), list[PreconditionError]()
        for stream, each in opened:
            try:
                done.append(self._alone(stream, each.back_out))
            except PreconditionError as refusal:
                refused.append(refusal)
        return done, refused

    def drop_old(self) -> list[TableName]:
        """Take away what is kept of before, of what is asked for; returns the tables."""
        dropped = list[TableName]()
        for stream, _ in self._open():
            with self.pipeline.leases.hold(name_rebuild(stream)):
                dropped += drop_kept(self.pipeline, stream, self._list_asked())
        return dropped

    def _list_asked(self) -> Sequence[TableName] | None:
        """The tables or the view asked for; None for all of a follower."""
        if self.asked.what in self.pipeline.settings.followers:
            return self.asked.tables or None
        return [TableName.parse(self.asked.what)]

    def _alone(self, stream: str, do: Callable[[], RebuildResult]) -> RebuildResult:
        with self.pipeline.leases.hold(name_rebuild(stream)), trouble_log(self.pipeline.state):
            return do()

    def _open(self) -> list[tuple[str, Rebuild]]:
        return [*(self._open_follower() if self.asked.what in self.pipeline.settings.followers else self._open_named())]

    def _open_follower(self) -> Iterator[tuple[str, Rebuild]]:
        name, only = self.asked.what, self.asked.tables or None
        self._check_tables(name)
        settings = self.pipeline.settings.followers[name]
        if isinstance(settings, DeltaSettings):
            work = self._work(name, From.SOURCE)
            yield name, TableRebuild(work, only or list_followed(self.pipeline))
        elif isinstance(settings, SearchSettings):
            yield name, IndexRebuild(self._work(name, From.LAKE, From.LOG), settings, only)
        else:
            kind = "compacted topics" if isinstance(settings, LatestSettings) else "indexes and a topic of matches"
            yield name, InPlaceRebuild(self._work(name, From.LAKE), kind, only)

    def _open_named(self) -> Iterator[tuple[str, Rebuild]]:
        name = TableName.parse(self.asked.what)
        if self.asked.tables:
            raise ConfigurationError("--table goes with a follower", f"leave it out, {self.asked.what} is none")
        if self.pipeline.settings.is_view(name):
            yield VIEWS, ViewRebuild(self._work(VIEWS, From.LAKE), name)
            return
        if name not in list_followed(self.pipeline):
            known = [*self.pipeline.settings.followers, *map(str, list_followed(self.pipeline))]
            raise ConfigurationError(
                f"there is no follower, table or view {self.asked.what}",
                f"it has {', '.join([*known, *self.pipeline.settings.views])}",
            )
        if self.asked.source in {From.LAKE, From.LOG}:
            yield from self._open_in_followers(name)
        else:
            lake = self.pipeline.lake_name
            yield lake, TableRebuild(self._work(lake, From.SOURCE), [name])

    def _open_views_over(self) -> Iterator[tuple[str, Rebuild]]:
        """The views over a view, in order: their stream takes no notice of a swap, which happens while it rests."""
        name, settings = TableName.parse(self.asked.what), self.pipeline.settings
        if self.asked.what in settings.followers or not settings.is_view(name):
            return
        over = {*find_views_over(self.pipeline, [name])}
        for view in sort_readable(define_present_views(self.pipeline))[0]:
            if view.name in over and settings.is_view(view.name):
                work = Work(self.pipeline, VIEWS, str(view.name), From.LAKE, self.say, self.progress)
                yield VIEWS, ViewRebuild(work, view.name)

    def _open_in_followers(self, table: TableName) -> Iterator[tuple[str, Rebuild]]:
        """The table in each follower behind the lake that holds it."""
        for follower, settings in self.pipeline.settings.followers.items():
            if isinstance(settings, DeltaSettings) or table not in list_held_by(self.pipeline, [follower]):
                continue
            if self.asked.source is From.LOG and not isinstance(settings, SearchSettings):
                continue
            asked = AskedRebuild(follower, [table], self.asked.source)
            yield from Rebuilder(self.pipeline, asked, self.say, self.progress)._open_follower()

    def _check_tables(self, follower: str) -> None:
        held = {*list_held_by(self.pipeline, [follower])}
        held |= set(map(TableName.parse, self.pipeline.settings.views))
        for table in self.asked.tables:
            if table not in held or not self.pipeline.settings.holds(follower, table):
                raise ConfigurationError(f"{follower} does not hold {table}", "correct --table")

    def _work(self, stream: str, *possible: From) -> Work:
        source = self.asked.source or possible[0]
        if source not in possible:
            raise _refuse(self.asked, stream, source)
        tables = " ".join(f"--table {table}" for table in self.asked.tables)
        what = f"{self.asked.what} {tables}".strip()
        return Work(self.pipeline, stream, what, source, self.say, self.progress)


def _refuse(asked: AskedRebuild, stream: str, source: From) -> RefusedError:
    """Why something cannot be rebuilt from there, and what can be done."""
    reasons = {
        From.SOURCE: (
            "it follows the lake, not the source",
            "`cdc rebuild TABLE --from source` copies a table into the lake, and then here",
        ),
        From.LAKE: ("the lake itself is no copy of itself", f"`cdc rebuild {asked.what} --from source`"),
        From.LOG: (
            "no log holds all of it: change topics have the changes of the last hours, and no copy",
            f"`cdc rebuild {asked.what}` takes what does",
        ),
    }
    why, remedy = reasons[source]
    return RefusedError(f"{asked.what} ({stream}) is not rebuilt from the {source}: {why}", remedy)

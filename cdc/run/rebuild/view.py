"""Rebuilds a view: all rows of its statement, under a name beside it, kept up there, compared, and swapped at a cut.

    build     a keeper of its own fills pg_rebuilt.NAME over the cuts that have all tables and views, and keeps it up,
              while `cdc follow` goes on with the view
    swap      the views' stream rests; pg_rebuilt.NAME goes to its cut, and is compared with the statement over the
              tables there; its rows become the view's in one commit, and the cut names them
    go back   the rows of before are a version of the same Delta table: they become pg_rebuilt.NAME as of their cut, are
              brought to the present one, and are swapped

A kill leaves the view as it is. One between the commit and the cut leaves a view that no cut has: its stream fills it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from cdc.config.settings import VIEWS
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.position import format_lsn
from cdc.core.table import TableName
from cdc.core.text.plural import format_bytes
from cdc.run.rebuild.handover import take_over
from cdc.run.rebuild.work import DIFFERS, RebuildPlan, RebuildResult, Work, describe_differences, open_version
from cdc.run.rebuilds import Replaced, choose_end, clear_cut_off_view, clear_view, name_beside
from cdc.run.spark.errors import check_spark
from cdc.run.verify.view_comparison import ViewComparison
from cdc.run.views.kept_views import find_view
from cdc.run.views.view_definitions import define_views
from cdc.sinks.lake import layout
from cdc.sinks.lake.apply.tables import LakeTable
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.feed.change_cache import ChangeCache
from cdc.sinks.lake.feed.feed import LakeFeed
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.load import load_copy
from cdc.views.definition import ViewDefinition
from cdc.views.order import sort_views
from cdc.views.spark.fill import copy_rows
from cdc.views.store import ViewStore
from cdc.views.upkeep.keeper import KeeperHooks, ViewKeeper
from cdc.views.upkeep.kept_view import KeptView

T = TypeVar("T")


@dataclass(frozen=True)
class ViewRebuild:
    """`name`: the view's."""

    work: Work
    name: TableName

    @cached_property
    def _store(self) -> ViewStore:
        """The views that are read, as they are while their stream rests."""
        return self.work.pipeline.reopened().views

    @cached_property
    def _beside(self) -> ViewStore:
        return ViewStore(self.work.pipeline.lake, self.work.pipeline.indexes, beside=True)

    @cached_property
    def _view(self) -> ViewDefinition:
        return find_view(self.work.pipeline, str(self.name))

    @property
    def _beside_name(self) -> TableName:
        return name_beside(self.name)

    def plan(self) -> RebuildPlan:
        table = self._store.find(self._view)
        size = sum(file.size for file in table.writer.snapshot.files.values()) if table else None
        return RebuildPlan(
            self.work.what,
            self.work.source,
            "its statement is run over all rows beside it, the result is kept up, compared with the statement at one"
            " cut, and takes its place there; followers that hold it copy it",
            f"about {format_bytes(2 * size)} in the lake" if size else "room for its rows twice",
            "the old rows in the past of its table, for as long as the lake keeps it; `--back-out` returns to them",
            2 * size if size is not None else None,
        )

    def run(self) -> RebuildResult:
        self._require_cut()
        if not self.work.can_go_on():
            clear_cut_off_view(self.work.pipeline)
            self._clear()
        self.work.begin("computes all rows beside")
        with self._open_keeper() as keeper:
            keeper.bring(self._require_cut())
        return self._swap(is_compared=True)

    def back_out(self) -> RebuildResult:
        kept = self.work.note.kept.get(str(self.name))
        if self.work.is_midway():
            self._clear()
            return self.work.give_up()
        if kept is None:
            raise PreconditionError(
                f"nothing is kept of before a rebuild of {self.name}", f"`cdc rebuild {self.name}` computes it anew"
            )
        self.work.begin_way_back("brings on what is kept of before")
        self._clear()
        self._put_beside(kept)
        with self._open_keeper() as keeper:
            keeper.bring(self._require_cut())
        return self._swap(is_compared=False)

    def _require_cut(self) -> Cut:
        self._store.cuts.invalidate()
        cut = self._store.cuts.last()
        if cut is None or any(str(name) not in cut.versions for name in sort_views([self._view])[self._view]):
            raise PreconditionError(
                f"view {self.name} reads what no cut of the views has", "run `cdc follow`, and see `cdc status`"
            )
        return cut

    def _define(self, cut: Cut) -> Sequence[ViewDefinition]:
        view = next(each for each in define_views(self.work.pipeline, cut) if each.name == self.name)
        return [replace(view, name=self._beside_name)]

    @contextmanager
    def _open_keeper(self) -> Iterator[ViewKeeper]:
        """A keeper of the one that is built beside. Raises PreconditionError when that could not be kept up."""
        pipeline = self.work.pipeline
        definition = self._define(self._require_cut())[0]
        view = KeptView(definition, sort_views([definition])[definition], whole_seconds=0.0)
        hooks = KeeperHooks(self.work.say, ChangeCache(0), check_spark, self._define)
        keeper = ViewKeeper(pipeline.spark, self._beside, [view], hooks)
        try:
            yield keeper
        finally:
            keeper.close()
            keeper.save()
        if stop := self._beside.find_stop(view.definition):
            raise PreconditionError(
                f"view {self.name} cannot be built: {stop.reason}",
                "correct its sql or its key in cdc.yaml, or the rows",
            )

    def _swap(self, *, is_compared: bool) -> RebuildResult:
        with take_over(self.work.pipeline, VIEWS, self.work.say):
            self.work.begin("catches up")
            cut = self._require_cut()
            with self._open_keeper() as keeper:
                reached = keeper.bring(cut)
            self.work.begin("compares")
            definition = self._define(cut)[0]
            found = ViewComparison(self.work.pipeline, 0).compare_at(definition, reached, reached)
            if not found.equal:
                told = [f"it has {found.follower_rows:,} rows, its statement {found.source_rows:,}"]
                if is_compared:
                    self.work.begin(DIFFERS)
                    raise describe_differences(self.work.what, cut.position.lsn, told)
                self.work.say(f"{self.name}: as before the rebuild, {told[0]}")
            self.work.keep(self._describe_present(cut))
            self._put_in_place(cut, reached)
        until = self.work.finish([self.name])
        self._clear()
        return RebuildResult(self.work.what, {self.name: found.follower_rows}, cut.position.lsn, until)

    def _describe_present(self, cut: Cut) -> Mapping[TableName, Replaced]:
        """What the view is now, of which the rows stay in the past of its table."""
        version = cut.versions.get(str(self.name))
        if version is None:
            return {}
        shown = self._store.shown_cut(cut, self.name)
        return {self.name: Replaced(choose_end(self.work.pipeline), version, shown.position.as_json())}

    def _put_in_place(self, cut: Cut, reached: Cut) -> None:
        """Make the rows beside the view's own, in one commit, and then part of the newest cut."""
        store, beside = self._store, self._require_beside()
        copy = LakeFeed(self.work.pipeline.spark, self.work.pipeline.lake, with_views=True).copy(beside.table, reached)
        table = replace(beside.table, name=self.name)
        files = copy_rows(copy, table, store.lake)
        bookmark = replace(beside.bookmark, lsn=cut.position.lsn)
        definition = replace(self._define(cut)[0], name=self.name)
        load_copy(store.lake, table, files, bookmark, anew=True, properties=definition.as_properties())
        store.tables.forget([self.name])
        made = store.find(definition)
        assert made is not None
        rest = replace(cut, as_of=_without(cut.as_of, self.name), whole=_without(cut.whole, self.name))
        store.extend_cut(store.include(rest, made, None), [self.name])

    def _require_beside(self) -> LakeTable:
        found = self._beside.tables.find(self._beside_name)
        assert found is not None
        return found

    def _put_beside(self, kept: Replaced) -> None:
        """Make the rows of before those beside, as of their cut."""
        lake, position = self.work.pipeline.lake, kept.at
        cut = self._store.cuts.find(position.end_offset) if position else None
        log = open_version(lake, self.name, kept.version)
        if position is None or cut is None or log is None:
            at = format_lsn(position.lsn) if position else "no position"
            self.work.forget([self.name])
            raise PreconditionError(
                f"what is kept of {self.name} is as of {at}, and the lake no longer has the changes since",
                f"`cdc rebuild {self.name}` computes it anew",
            )
        held, bookmark = layout.table_of(log.snapshot), layout.bookmark(self._store.lake, log.snapshot)
        assert held
        assert bookmark
        table, definition = replace(held, name=self._beside_name), self._define(cut)[0]
        if not definition.is_noted_in(log.snapshot.configuration):
            self.work.forget([self.name])
            raise ConfigurationError(
                f"the rows that are kept of {self.name} are of another statement or key",
                "put the former ones back into cdc.yaml, then `cdc rebuild` it",
            )
        copy = LakeCopy(self.work.pipeline.spark, held, lake.table_storage(self.name), [*log.snapshot.files.values()])
        store = self._beside
        store.prepare([definition])
        files = copy_rows(copy, table, store.lake)
        load_copy(store.lake, table, files, bookmark, anew=True, properties=definition.as_properties())
        store.tables.forget([self._beside_name])
        store.add_cut(store.include(replace(cut, as_of={}, whole={}), self._require_beside(), None))

    def _clear(self) -> None:
        """Take away what is built beside."""
        clear_view(self.work.pipeline, self.name)
        # it knows what was there
        self.__dict__.pop("_beside", None)


def _without(values: Mapping[str, T], name: TableName) -> dict[str, T]:
    return {each: value for each, value in values.items() if each != str(name)}

"""`cdc erase`: one row, from the source's delete to the last file that has its bytes, and a signed report of that.

Each step may be done twice, and what is done is kept: after a kill the same command goes on. What is searched for is
kept sealed, since after some steps nobody could gather it again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc.config.settings import VIEWS
from cdc.connect.source.access.connection import current_lsn
from cdc.core.errors import CdcError, PreconditionError, RefusedError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.core.waiting import wait_until
from cdc.run.erase import index_steps, lake_steps, machine_steps
from cdc.run.erase.gathering import gather, seal_values, unseal_values
from cdc.run.erase.log_steps import LogErasure
from cdc.run.erase.plan import ErasurePlan, make_plan
from cdc.run.erase.progress import ErasureProgress
from cdc.run.erase.report import ErasureReport, write_report
from cdc.run.erase.search import ByteSearch, search, search_folders
from cdc.run.erase.target import find_target
from cdc.run.erase.values import Sought
from cdc.run.follow.follow import bring_on
from cdc.run.follow.process_streams import Say
from cdc.run.lease import COPIES
from cdc.run.pipeline import Pipeline
from cdc.run.rebuilds import drop_unread
from cdc.run.signatures import SigningKey
from cdc.run.trace.source_row import name_row

ONCE: Final = {"values", "search", "source"}
"""Steps that an erasure which has left something does not do again."""
SETTLE_SECONDS: Final = 120.0
"""How long to wait for brokers and nodes on this machine to delete files."""
SETTLE_POLL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What is asked for. `values`: further texts to search for; `folders`: of brokers and nodes, to search, too."""

    table: TableName
    key: Sequence[str]
    values: Sequence[str] = ()
    folders: Sequence[Path] = ()
    delete_at_source: bool = False


class Erasure:
    """The erasure of one row. To make it changes nothing; raises what keeps it from being done, so far as that is seen
    before: ConfigurationError, PreconditionError, UnreachableError, and RefusedError while the source has the row or
    somebody follows."""

    def __init__(self, pipeline: Pipeline, request: ErasureRequest, say: Say) -> None:
        self._pipeline = pipeline
        self._request = request
        self._say = say
        self._signing = SigningKey.load(pipeline.settings.erase)
        self.target, self._source = find_target(pipeline, request.table, [*request.key], self._signing)
        self._progress = ErasureProgress(pipeline.state, self.target.name)
        self._sought = self._unseal()
        self._check()

    def plan(self) -> ErasurePlan:
        return make_plan(
            self._pipeline,
            self.target,
            self._in_log(),
            has_row=self._source.row is not None,
            finished=len(self._progress.done),
        )

    def run(self) -> tuple[ErasureReport, Path]:
        """Erase, search and report; returns the report and its path. Topics and indexes are set back in any case."""
        try:
            for name, act in self._steps():
                if name not in self._progress.done:
                    self._say(f"erase: {name}")
                    self._add_count(name, act())
                    self._progress.finish(name)
            return self._report()
        finally:
            self._restore()

    def _add_count(self, step: str, count: int) -> None:
        """Count what a step did, together with what it did before it was cut off."""
        known = self._progress.facts.get("counts", {})
        earlier = 0 if step in ONCE else known.get(step, 0)
        self._progress.note(counts={**known, step: earlier + count})

    def _steps(self) -> Iterator[tuple[str, Callable[[], int]]]:
        pipeline, target = self._pipeline, self.target
        yield "values", self._gather
        yield "search", self._search_before
        yield "source", self._delete_at_source
        yield "followers", self._bring_on
        yield "dead letters", lambda: lake_steps.drop_letters(pipeline, target, self._sought)
        yield "histories", self._alone(lambda own: lake_steps.erase_versions(own, target, self._signing))
        yield "views", self._bring_on_again
        yield "rewrite", self._alone(lambda own: lake_steps.rewrite(own, target))
        yield "segments", lambda: self._in_log().roll()
        yield "cut", self._bring_to_rewritten
        yield "change topics", lambda: self._in_log().cut_off()
        yield "compacted topics", lambda: self._in_log().compact()
        yield "past", self._alone(lambda own: lake_steps.delete_pasts(own, target))
        yield "indexes", lambda: index_steps.expunge_indexes(pipeline, target, self._progress)
        yield "machine", self._alone(self._clean_machine)

    def _gather(self) -> int:
        found = dict.fromkeys([*self._request.values, *gather(self._pipeline, self.target, self._source)])
        sealed = self._signing.seal(seal_values([*found]), self.target.name)
        self._progress.note(sealed=sealed, lsn=self._source.lsn)
        self._sought = self._unseal()
        return len(found)

    def _search_before(self) -> int:
        before = self._search()
        self._progress.note(before=before.as_json())
        return sum(place.found for place in before.places)

    def _delete_at_source(self) -> int:
        with self._pipeline.open_source() as connection:
            count = 0
            if self._source.row is not None:
                row = name_row(connection, self.target.table, [*self._request.key])
                try:
                    count = connection.execute(sql.SQL("DELETE FROM {}").format(row)).rowcount
                except psycopg.Error as error:
                    raise PreconditionError(
                        f"the row of {self._request.table} cannot be deleted: {error.diag.message_primary}",
                        "delete it yourself, with a role that may, and run `cdc erase` again",
                    ) from None
            self._progress.note(lsn=current_lsn(connection))
        return count

    def _bring_on(self) -> int:
        # what rebuilds keep has the row, too, and nobody reads it
        drop_unread(self._pipeline)
        bring_on(self._pipeline, self._pipeline.settings.stream_names, self._say)
        return len(self._pipeline.settings.stream_names)

    def _bring_on_again(self) -> int:
        """Let views have what the last steps took away: only then is no row of theirs made of it."""
        return self._bring_on() if self._pipeline.settings.views else 0

    def _bring_to_rewritten(self) -> int:
        lake_steps.bring_to_rewritten(self._pipeline, self.target, self._say)
        return len(self._pipeline.settings.stream_names)

    def _clean_machine(self, own: Pipeline) -> int:
        lake_steps.delete_caches(own)
        return machine_steps.clean_machine(own, self._sought)

    def _alone(self, act: Callable[[Pipeline], int]) -> Callable[[], int]:
        """The step while nobody writes to any follower, by what is there then."""

        def act_alone() -> int:
            with hold_all(self._pipeline), self._pipeline.reopened() as own:
                return act(own)

        return act_alone

    def _report(self) -> tuple[ErasureReport, Path]:
        # brokers and nodes delete files after their answers
        if not wait_until(self._has_settled, SETTLE_SECONDS, SETTLE_POLL_SECONDS):
            self._say("files of this machine still have it")
        facts, after = self._progress.facts, self._search()
        report = ErasureReport(
            self.target.name,
            str(self._request.table),
            Lsn(facts["lsn"]),
            self._progress.done,
            facts.get("counts", {}),
            len(self._sought.texts),
            facts["before"],
            after,
        )
        path = write_report(self._pipeline, self.target, report, self._signing)
        if not after.left:
            # what fails here is told, and kept: the next erasure sets it back
            self._set_back()
            self._progress.remove()
        else:
            # the next run does all but the first steps again
            self._progress.done = {step: at for step, at in self._progress.done.items() if step in ONCE}
            self._progress.note()
        return report, path

    def _has_settled(self) -> bool:
        places = search_folders(self._pipeline, self._sought, self._request.folders)
        return not any(place.found or place.unknown for place in places)

    def _search(self) -> ByteSearch:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._pipeline.reopened() as own:
            erasure = LogErasure(own, self.target, self._sought, self._progress)
            return search(own, erasure, self._sought, self._request.folders, at)

    def _in_log(self) -> LogErasure:
        return LogErasure(self._pipeline.reopened(), self.target, self._sought, self._progress)

    def _unseal(self) -> Sought:
        sealed: Any = self._progress.facts.get("sealed")
        if sealed is None:
            return Sought(tuple(self._request.values))
        return unseal_values(self._signing.unseal(sealed, self.target.name))

    def _restore(self) -> None:
        if not self._progress.has_begun:
            return
        with suppress(CdcError):
            self._set_back()

    def _set_back(self) -> None:
        """Set topics and indexes back; both are tried. Raises CdcError where one cannot be."""
        try:
            self._in_log().restore()
        finally:
            index_steps.restore_indexes(self._pipeline, self.target, self._progress)

    def _check(self) -> None:
        for name in _list_leases(self._pipeline):
            self._pipeline.leases.require_free(name)
        if any(stop.name == self._request.table for stop in self._pipeline.lake_follower.tables.stops()):
            raise PreconditionError(
                f"{self._request.table} is stopped in the lake", "see `cdc status`; mend that first"
            )
        if self._source.row is not None and not self._request.delete_at_source:
            where = " AND ".join(f"{name} = …" for name in self.target.table.key)
            raise RefusedError(
                f"the source still has this row of {self._request.table}",
                f"delete it there, WHERE {where}, or add --delete-at-source",
            )


@contextmanager
def hold_all(pipeline: Pipeline) -> Iterator[None]:
    """Nobody else follows, keeps views or copies tables on this machine. Raises RefusedError while somebody does."""
    with ExitStack() as held:
        for name in _list_leases(pipeline):
            held.enter_context(pipeline.leases.hold(name))
        yield


def _list_leases(pipeline: Pipeline) -> list[str]:
    return [*pipeline.settings.followers, VIEWS, COPIES]

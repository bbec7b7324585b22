"""Rebuilds tables of the lake from the source: each is copied beside, joins at a position, and is compared then.

    build     the rows of a snapshot are written as files that nobody reads, while `cdc follow` goes on with the table
    swap      once the lake has reached the snapshot, its stream rests for the commit that makes the files the table's
              content; it goes on, applies the changes since the snapshot, and the next cut names the table
    go back   the rows of before are a version of the same Delta table: they are such a copy as of their cut

A kill before the commit leaves the old table; after it, the stream brings the copy on as any other.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from cdc.config.settings import CAPTURE
from cdc.connect.source import heartbeat
from cdc.connect.source.catalog import TablesRefusedError
from cdc.connect.source.row_estimates import estimate_rows
from cdc.core.errors import DivergenceError, PreconditionError
from cdc.core.position import BEFORE_LOG, Bookmark, Lsn, Position, format_lsn
from cdc.core.table import Table, TableName
from cdc.core.text.plural import format_bytes, format_count
from cdc.core.waiting import wait_until
from cdc.log.names import change_topic, transaction_topic
from cdc.run.copy.recapture import PendingCopies
from cdc.run.copy.resync import publish_and_copy, rests
from cdc.run.copy.snapshot_copy import CopyContext
from cdc.run.follow.follow import bring_on
from cdc.run.health.continuity import check_source
from cdc.run.lease import COPIES
from cdc.run.rebuild.handover import take_over
from cdc.run.rebuild.work import RebuildPlan, RebuildResult, Work, open_version
from cdc.run.rebuilds import JOINS, Replaced, choose_end
from cdc.run.tables.preflight import check_tables, merge_refusals
from cdc.run.tables.selection import list_followed
from cdc.run.verify.capture_check import CaptureCheck
from cdc.run.verify.catch_up import wait_for_lsn
from cdc.run.verify.verify import compare_all
from cdc.sinks.lake import layout
from cdc.sinks.lake.delta.scan import LakeCopy
from cdc.sinks.lake.delta.snapshot import DataFile
from cdc.sinks.lake.table.load import CopiedFiles
from cdc.views.spark.fill import copy_rows

JOIN_SECONDS: Final = 600.0
"""How long to wait until a copy has joined: the changes since its snapshot are applied to it first."""
Copies = Mapping[TableName, tuple[Table, CopiedFiles, Bookmark]]


@dataclass(frozen=True)
class TableRebuild:
    work: Work
    tables: Collection[TableName]

    def plan(self) -> RebuildPlan:
        lake = self.work.pipeline.lake_follower.tables.all()
        opened = [lake[name].writer.snapshot.files.values() for name in self.tables if name in lake]
        size = sum(file.size for files in opened for file in files)
        with self.work.pipeline.open_source() as connection:
            rows = sum(estimate_rows(connection, self.tables).values())
        return RebuildPlan(
            self.work.what,
            self.work.source,
            f"about {rows:,} rows of {format_count(len(self.tables), 'table')} are copied beside on a snapshot of the"
            " source; each joins with the changes since, at one position, and followers and views over it are filled"
            " anew from it. Readers of cuts see the old rows until then, who reads the newest version of a Delta table"
            " those of the snapshot for a moment",
            f"about {format_bytes(size)} in the lake, and in each follower that holds it as much as it has now; the"
            " slot keeps the WAL of that time",
            "the old rows in the past of each table, for as long as the lake keeps it; `--back-out` returns to them",
            size,
        )

    def run(self) -> RebuildResult:
        self.work.begin("copies from the source")
        return self._swap(self._copy())

    def back_out(self) -> RebuildResult:
        noted = self.work.note
        if self.work.is_midway():
            # its files are no table's, and are deleted as those of any copy that was cut off
            return self.work.give_up()
        kept = {name: noted.kept[str(name)] for name in self.tables if str(name) in noted.kept}
        if not kept:
            raise PreconditionError(
                f"nothing is kept of before a rebuild of {self.work.what}",
                f"`cdc rebuild {self.work.what}` copies it anew",
            )
        found = {name: self._find_kept(name, each) for name, each in kept.items()}
        self.work.begin_way_back("writes what is kept of before")
        lake, spark, copies = self.work.pipeline.lake, self.work.pipeline.spark, PendingCopies()
        for name, (table, files, bookmark) in found.items():
            copy = LakeCopy(spark, table, lake.table_storage(name), files)
            copies.load(table, copy_rows(copy, table, lake), bookmark)
        return self._swap(copies.copies)

    def _copy(self) -> Copies:
        pipeline, pending = self.work.pipeline, PendingCopies()
        with (
            pipeline.leases.hold(COPIES),
            pipeline.open_source() as connection,
            pipeline.open_connect() as client,
        ):
            if (pause := pipeline.requests.read_pause(CAPTURE)) and rests(pipeline, client):
                raise pause
            registered, captured = check_source(pipeline, connection), list_followed(pipeline)
            others = sorted({*captured} - {*self.tables})
            tables, refused = check_tables(connection, pipeline, [*self.tables], client.extensions(), others)
            if refused:
                raise TablesRefusedError(map(merge_refusals, refused.values()))
            pipeline.start_spark()
            context = CopyContext(pipeline, connection, client, captured, registered, self.work.say, self.work.progress)
            copied = publish_and_copy(context, pending, tables)
            if copied.refused:
                raise TablesRefusedError(copied.refused.values())
        return pending.copies

    def _swap(self, copies: Copies) -> RebuildResult:
        pipeline, lake = self.work.pipeline, self.work.pipeline.lake_name
        lsn = Lsn(max(bookmark.lsn for _, _, bookmark in copies.values()))
        self.work.begin(f"waits until the lake is at {format_lsn(lsn)}")
        self._bring_on()
        # a copy that is ahead would be in no cut until the lake has reached it
        self._await_lake(lsn)
        with take_over(pipeline, lake, self.work.say):
            ids = self._put_in_place(copies)
        self.work.begin(JOINS)
        self._bring_on()
        self._await_joined(ids)
        until = self.work.finish(copies)
        return replace(self._compare([*copies]), kept_until=until)

    def _put_in_place(self, copies: Copies) -> Mapping[TableName, str]:
        """Make the copies the tables' content, and note what the tables were; returns their new ids."""
        until = choose_end(self.work.pipeline)
        with closing(self.work.pipeline.reopened().lake_follower) as follower:
            cut = follower.cuts.last()
            there = {name: cut.versions[str(name)] for name in copies if cut and str(name) in cut.versions}
            at = cut.position.as_json() if cut else None
            self.work.keep({name: Replaced(until, version, at) for name, version in there.items()})
            for table, files, bookmark in copies.values():
                # the old one was followed beyond the copy: these changes are applied once more, to the new one
                applied = cut.position.log_start.to_end_offset(bookmark.order_end) - 1 if cut else BEFORE_LOG
                reached = None if applied == BEFORE_LOG else applied
                follower.load(table, files, bookmark, anew=True, applied=reached)
            return {name: follower.tables.all()[name].id for name in copies}

    def _bring_on(self) -> None:
        """Bring the lake to the source's end, if nobody follows it."""
        pipeline = self.work.pipeline
        if not pipeline.leases.is_held(pipeline.lake_name):
            bring_on(pipeline, [pipeline.lake_name], self.work.say)

    def _await_lake(self, lsn: Lsn) -> None:
        pipeline = self.work.pipeline
        with pipeline.open_source() as connection:
            heartbeat.write_heartbeat(connection, pipeline.settings.source, pipeline.name, "rebuilt")
            check = CaptureCheck(pipeline, connection)
            wait_for_lsn(pipeline, pipeline.lake_name, pipeline.lake_follower.position, lsn, JOIN_SECONDS, check)

    def _await_joined(self, ids: Mapping[TableName, str]) -> None:
        pipeline = self.work.pipeline
        with pipeline.open_source() as connection:
            heartbeat.write_heartbeat(connection, pipeline.settings.source, pipeline.name, "rebuilt, joins")

        def has_joined() -> bool:
            pipeline.look_again()
            cut = pipeline.lake_follower.cuts.last()
            return cut is not None and all(cut.ids.get(str(name)) == id for name, id in ids.items())

        if not wait_until(has_joined, JOIN_SECONDS):
            raise PreconditionError(
                f"{self.work.what} is copied, and has not joined the lake for {JOIN_SECONDS:.0f} s",
                "see `cdc status`; it joins by itself while `cdc follow` runs",
            )

    def _compare(self, names: list[TableName]) -> RebuildResult:
        pipeline = self.work.pipeline
        pipeline.look_again()
        report = compare_all(pipeline, [pipeline.lake_name], JOIN_SECONDS, 0, names)
        verdicts = report.followers[pipeline.lake_name]
        rows = {name: each.comparison.follower_rows for name, each in verdicts.items() if each.comparison}
        for name, each in verdicts.items():
            if each.comparison is None:
                self.work.say(
                    f"{name}: it changed while it was compared; `cdc verify --table {name}` compares it again"
                )
        if report.has_differences:
            wrong = [str(name) for name, each in verdicts.items() if each.comparison and not each.comparison.equal]
            raise DivergenceError(
                f"{', '.join(wrong)} joined, and differs from the source at {format_lsn(report.lsn)}",
                f"`cdc rebuild {self.work.what} --back-out` returns to the rows of before",
            )
        return RebuildResult(self.work.what, rows, report.lsn)

    def _find_kept(self, name: TableName, kept: Replaced) -> tuple[Table, Sequence[DataFile], Bookmark]:
        """The rows of before, and the bookmark of the cut that had them.

        Raises PreconditionError when the log no longer has the changes since, or the table has other columns now.
        """
        pipeline, at = self.work.pipeline, kept.at
        log, now = open_version(pipeline.lake, name, kept.version), layout.open_table(pipeline.lake, name)
        table = layout.table_of(log.snapshot) if log else None
        bookmark = layout.bookmark(pipeline.lake, log.snapshot) if log else None
        if at is None or log is None or table is None or bookmark is None or not self._has_log_since(name, at):
            self.work.forget([name])
            raise PreconditionError(
                f"lake and log no longer have what {name} was before its rebuild, and the changes since",
                f"`cdc rebuild {name}` copies it from the source",
            )
        if now is None or table.columns != now[1].columns:
            raise PreconditionError(
                f"{name} had other columns before its rebuild", f"`cdc rebuild {name}` copies it as it is"
            )
        topic = change_topic(pipeline.settings.log.prefix, name)
        ends = {topic: at.next_offsets.get(topic, bookmark.topic_ends.get(topic, {}))}
        moved = replace(bookmark, lsn=at.lsn, topic_ends=ends, order_end=at.topic_offset + 1)
        return table, [*log.snapshot.files.values()], moved

    def _has_log_since(self, name: TableName, at: Position) -> bool:
        """Has the log every change after this position, of the same capture?"""
        pipeline, prefix = self.work.pipeline, self.work.pipeline.settings.log.prefix
        position, topic, order = (
            pipeline.lake_follower.position(),
            change_topic(prefix, name),
            transaction_topic(prefix),
        )
        if position is None or position.log_start != at.log_start:
            return False
        with pipeline.open_log() as reader:
            first = reader.beginning([topic, order])
        has_ends = all(begin <= at.topic_offset + 1 for begin in first[order].values())
        offsets = at.next_offsets.get(topic, {})
        return has_ends and all(begin <= offsets.get(partition, 0) for partition, begin in first[topic].items())

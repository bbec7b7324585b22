"""Looks at one table in the source and in followers while all of them go on, and compares it name by name.

What has changed since a cut of the lake from before the look is left out: nobody can tell a fault from a later change
there. A first look may still meet what the log has and the source does not show yet, so a name that differs is looked
at once more, behind such transactions: only what differs then is a fault.
"""

import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from psycopg import Connection

from cdc.columns.rows.held import Held
from cdc.columns.rows.row_prints import Names, find_nulls, keep_newest, store
from cdc.connect.source import heartbeat
from cdc.connect.source.access import connection as source
from cdc.core.errors import CdcError
from cdc.core.position import Lsn, format_lsn
from cdc.core.table import Table
from cdc.run.pipeline import Pipeline
from cdc.run.spark.errors import translate_errors
from cdc.run.verify.catch_up import PATIENCE_SECONDS, wait_for_lsn
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.rolling.comparison import NameDifferences, compare_prints
from cdc.run.verify.rolling.duty_cycle import DutyCycle
from cdc.run.verify.rolling.look import Look, PrintedSide
from cdc.run.verify.rolling.moved_rows import MovedRows
from cdc.run.verify.rolling.print_files import PrintFiles, split_names
from cdc.run.verify.rolling.source_pages import await_shown, read_pages

Forms = Mapping[str, Held | None]
"""What followers hold of a table, each form once."""


@dataclass(frozen=True, slots=True)
class TableLooks:
    """Looks at one table in the source, by `connection`, and in followers, by their readers, as fast as `pace` lets it.

    `scratch`: where it keeps prints, 32 bytes a row and side. `patience`: seconds in which a follower has to have what
    the source was read with.
    """

    pipeline: Pipeline
    connection: Connection
    table: Table
    readers: Mapping[str, FollowerReader]
    scratch: Path
    pace: DutyCycle
    patience: float = PATIENCE_SECONDS

    def look(self, only: Names | None, among: Collection[str] | None = None) -> tuple[Lsn, Mapping[str, Look]]:
        """Look at all rows, or at those with `only` these names, which are then no longer those of open transactions;
        in all followers, or those `among` them.

        Returns the LSN that every follower had reached. Raises CdcError when the table cannot be compared now, and
        StoppedError.
        """
        feed = self.pipeline.open_whole_feed()
        since = feed.last_cut()
        if only is not None:
            await_shown(self.connection, self.pace)
        names = self.readers if among is None else among
        held = {name: self.readers[name].held(self.table) for name in names}
        forms = {form.name if form else "": form for form in held.values()}
        moved = MovedRows(feed, self.table, since, [*forms.values()])
        with self._open_folder() as folder:
            ours = self._read_source(folder, forms, only, moved)
            lsn = self._mark_end()
            looks = dict[str, Look]()
            for name, form in held.items():
                columns = (form.table if form else self.table).column_names
                try:
                    theirs = self._read_follower(folder, name, lsn, only, moved)
                except CdcError as error:
                    # its own trouble: the others are compared
                    looks[name] = Look(error=error)
                    continue
                moved.extend()
                own = ours[form.name if form else ""]
                found = Look(self._compare(own, theirs, moved.names(form)), own.texts, theirs.texts, columns)
                looks[name] = found if only is None else found.check_texts()
        return lsn, looks

    def _compare(self, ours: PrintedSide, theirs: PrintedSide, moved: Names) -> NameDifferences:
        found = NameDifferences()
        for source_rows, follower_rows, left in zip(
            ours.files.read(), theirs.files.read(), split_names(moved), strict=True
        ):
            rows = keep_newest(follower_rows) if theirs.files.is_log else follower_rows
            found += compare_prints(source_rows, rows, left, keyed=bool(self.table.key))
            self.pace.rest()
        return found

    def _read_source(
        self, folder: Path, forms: Mapping[str, Held | None], only: Names | None, moved: MovedRows
    ) -> Mapping[str, PrintedSide]:
        sides = {
            name: PrintedSide(PrintFiles(folder / f"source {number}"), self._find_nulls(form))
            for number, (name, form) in enumerate(forms.items())
        }
        self.pace.begin()
        for rows in read_pages(self.pipeline, self.table, self.pace):
            for name, form in forms.items():
                for part in store([rows], self.table, form):
                    sides[name].take(part, only)
            moved.keep_up()
        return sides

    def _mark_end(self) -> Lsn:
        """An LSN behind everything that was read; a beat behind it, so that the log tells when it has all of it."""
        lsn = source.inserted_lsn(self.connection)
        mark = f"verify {format_lsn(lsn)}"
        heartbeat.write_heartbeat(self.connection, self.pipeline.settings.source, self.pipeline.name, mark)
        return lsn

    def _read_follower(self, folder: Path, name: str, lsn: Lsn, only: Names | None, moved: MovedRows) -> PrintedSide:
        reader = self.readers[name]
        wait_for_lsn(self.pipeline, name, reader.position, lsn, self.patience, self.pace.check)
        side = PrintedSide(PrintFiles(folder / f"follower {name}"), self._find_nulls(reader.held(self.table)))
        self.pace.begin()
        with translate_errors(f"the comparison of {self.table.name} in {name}"):
            for rows in reader.stored(self.table):
                side.take(rows, only)
                # no trouble of this follower's: it is met again behind all rows
                with suppress(CdcError):
                    moved.keep_up()
                self.pace.rest()
        return side

    def _find_nulls(self, form: Held | None) -> re.Pattern[bytes]:
        return find_nulls((form.table if form else self.table).column_names)

    @contextmanager
    def _open_folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="verify-", dir=self.scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

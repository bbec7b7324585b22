"""`cdc verify --every`: compares one table after the other with the source, for ever, each once in a period.

It works for a share of the time only. What it has found is kept after each table, and is where it goes on.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cdc.config.settings import VIEWS
from cdc.core.containment import contain_errors
from cdc.core.errors import CdcError, PreconditionError, RefusedError
from cdc.core.position import Lsn
from cdc.core.table import TableName
from cdc.core.text.lines import WarningLine
from cdc.core.text.plural import format_count
from cdc.run.background import run_in_background
from cdc.run.pipeline import Pipeline
from cdc.run.scratch import open_scratch
from cdc.run.spark.errors import check_spark
from cdc.run.status.stream_report import open_reports
from cdc.run.tables import problems
from cdc.run.tables.preflight import examine_tables
from cdc.run.tables.selection import list_held_by
from cdc.run.trouble_log import trouble_log
from cdc.run.verify.kept_results import VERIFYING, Turn, keep_turn
from cdc.run.verify.pinned_source import FollowerReader
from cdc.run.verify.report import DIFFERENT, STOPPED, Verdict
from cdc.run.verify.rolling.duty_cycle import DutyCycle, StoppedError
from cdc.run.verify.rolling.schedule import choose_next, list_tried
from cdc.run.verify.rolling.table_comparison import compare_moving, stop_all
from cdc.run.verify.rolling.table_looks import TableLooks
from cdc.run.verify.verify import find_incomparable, open_readers

LOOK_SECONDS: Final = 60.0
"""The longest wait until it looks again whether there is something to compare, and after an error."""
REACH_SECONDS: Final = 600.0
"""How long to wait for a follower that is behind: longer than somebody would who waits for the result."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Rolling:
    """A rolling verification of these followers: each table once in `every` seconds, at this `pace`."""

    pipeline: Pipeline
    names: Sequence[str]
    every: float
    pace: DutyCycle
    say: Say

    def run(self) -> None:
        """Compare until `pace` is stopped. Raises RefusedError when another process on this machine does it."""
        with self.pipeline.leases.hold(VERIFYING), trouble_log(self.pipeline.state):
            last = ""
            while not self.pace.stopping.is_set():
                try:
                    wait, last = self._compare_next(), ""
                except StoppedError:
                    return
                except CdcError as error:
                    # a part is down: said once, and tried again
                    if str(error) != last:
                        self.say(WarningLine.of(f"verify: {error}", error))
                    wait, last = LOOK_SECONDS, str(error)
                self.pace.stopping.wait(min(wait, LOOK_SECONDS))

    def _compare_next(self) -> float:
        """Compare the table whose turn it is, if it is one's; returns in how many seconds the next one's begins."""
        with self.pipeline.reopened() as own:
            held = {name: {*map(str, list_held_by(own, [name]))} for name in self.names}
            tables = set[str]().union(*held.values())
            if not tables:
                return LOOK_SECONDS
            known = open_reports(own).read_verifications()
            table, wait = choose_next(list_tried(known, held, self.every), tables, time.time(), self.every)
            if wait == 0:
                turn = self._take_turn(own, TableName.parse(table), [n for n in self.names if table in held[n]])
                keep_turn(own, turn, held)
                self._tell(turn)
            return wait

    def _take_turn(self, own: Pipeline, name: TableName, followers: Sequence[str]) -> Turn:
        reasons = list[str]()
        with contain_errors(f"the comparison of {name}", reasons.append, self._find_shared):
            lsn, verdicts = self._compare(own, name, followers)
            return Turn(name, verdicts, self.every, lsn)
        return Turn(name, stop_all(followers, PreconditionError(reasons[0])), self.every)

    def _find_shared(self) -> Exception | None:
        return StoppedError() if self.pace.stopping.is_set() else check_spark()

    def _compare(
        self, own: Pipeline, name: TableName, followers: Sequence[str]
    ) -> tuple[Lsn | None, Mapping[str, Verdict]]:
        with own.open_source() as connection:
            now = examine_tables(connection, own, [name])
            readers = open_readers(own, followers)
            stops = {stop.name: problems.describe_stop(stop, now) for stop in own.lake_follower.tables.stops()}
            reasons = {**find_incomparable(own, now, stops), **stops}
            table = next((table for table in now.fit if table.name == name), None)
            if name in reasons or table is None:
                return None, stop_all(followers, reasons.get(name) or PreconditionError("it is not followed"))
            stopped = {n: stop for n, reader in readers.items() if (stop := _find_stop(reader, name))}
            going = {n: reader for n, reader in readers.items() if n not in stopped}
            found = {n: verdict for n, stop in stopped.items() for verdict in stop_all([n], stop).values()}
            if not going:
                return None, found
            looks = TableLooks(own, connection, table, going, open_scratch(own.state), self.pace, REACH_SECONDS)
            lsn, compared = compare_moving(looks)
            return lsn, {**found, **compared}

    def _tell(self, turn: Turn) -> None:
        words = "; ".join(f"{name} {_describe(verdict)}" for name, verdict in turn.verdicts.items())
        line = f"verify: {turn.table}: {words}"
        self.say(WarningLine(line) if _is_odd(turn.verdicts.values()) else line)


def _find_stop(reader: FollowerReader, name: TableName) -> CdcError | None:
    """Why a follower's table cannot be compared: it is stopped, or the follower does not answer."""
    try:
        return reader.stops().get(name)
    except CdcError as error:
        return error


def _is_odd(verdicts: Collection[Verdict]) -> bool:
    return any(verdict.word in (DIFFERENT, STOPPED) for verdict in verdicts)


def _describe(verdict: Verdict) -> str:
    found = verdict.comparison
    if found is None:
        return f"is not compared: {verdict.stopped.what if verdict.stopped else 'it moved'}"
    keys = found.different
    left = f", but for {format_count(verdict.moved, 'key')} that changed meanwhile" if verdict.moved else ""
    state = f"differs in {format_count(keys, 'key')}" if keys else "is equal"
    return f"{state} in {format_count(found.source_rows, 'row')}{left}"


def open_rolling(
    pipeline: Pipeline, names: Sequence[str], say: Say, stopping: threading.Event, every: float
) -> Rolling:
    """The rolling verification as the settings have it, of these followers; views are not among them."""
    pace = DutyCycle(pipeline.settings.verify.share, stopping)
    return Rolling(pipeline, [name for name in names if name != VIEWS], every, pace, say)


@contextmanager
def verify_beside(pipeline: Pipeline, say: Say) -> Iterator[None]:
    """Verify for ever beside the streams, as long as the context lasts, if the settings ask for it."""
    every = pipeline.settings.verify.every_seconds
    if every is None:
        yield
        return

    def work(ended: threading.Event) -> None:
        try:
            open_rolling(pipeline.reopened(), [*pipeline.settings.followers], say, ended, every).run()
        except RefusedError:
            say("verify: another process on this machine does it already")
        except CdcError as error:
            say(WarningLine.of(f"verify: {error}", error))

    with run_in_background(work, "verification"):
        yield

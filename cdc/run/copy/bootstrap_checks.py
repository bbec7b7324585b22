"""What a bootstrap checks before it makes anything: one list for `cdc bootstrap` and `cdc plan`."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from psycopg import Connection

from cdc.connect.source.slots import slot
from cdc.connect.source.upgrade import Upgrade
from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.table import Table, TableName
from cdc.run.copy.capture_setup import run_preflight
from cdc.run.pipeline import Pipeline
from cdc.run.tables import problems
from cdc.run.tables.resume_check import check_resumable
from cdc.run.tables.schema_check import check_secret, find_changed_choices
from cdc.run.tables.selection import find_selected


@dataclass(frozen=True, slots=True)
class BootstrapChecks:
    """What a bootstrap is to follow: `tables`, and those of them that it copies `again`, with why.

    `optional`: tables whose refusal fails nothing. `skipped`: those of them that are refused, with every reason.
    `notices`: what is worth knowing, and keeps nothing from going on. `upgrade`: pg_upgrade has made the source.
    """

    tables: Sequence[Table]
    again: Mapping[TableName, str]
    optional: Set[TableName]
    skipped: Mapping[TableName, Sequence[PreconditionError]]
    notices: Sequence[PreconditionError]
    upgrade: Upgrade | None = None

    @property
    def names(self) -> list[TableName]:
        return [table.name for table in self.tables]

    def lines(self) -> list[str]:
        """What is to be said before anything is made."""
        refused = [f"not followed: {refusal}" for refusal in chain.from_iterable(self.skipped.values())]
        again = [f"{name} is copied again: {why}" for name, why in self.again.items() if why]
        upgraded = [f"the source was upgraded, and goes on as cluster {self.upgrade.new}"] if self.upgrade else []
        return [*upgraded, *again, *refused, *map(str, self.notices)]


def check_bootstrap(pipeline: Pipeline, connection: Connection, again: Sequence[TableName]) -> BootstrapChecks:
    """Check everything that can be checked before anything is made. Raises CdcError with what is against it."""
    names = find_selected(connection, pipeline)
    if unknown := sorted(set(again) - set(names)):
        raise ConfigurationError(f"{unknown[0]} is no table of the source that is followed", "correct --again")
    check_secret(pipeline, again)
    rechosen = {name: why for name, why in find_changed_choices(pipeline).items() if name in names}
    wanted = {**dict.fromkeys(again, ""), **rechosen}
    optional = _find_optional(pipeline, names) - wanted.keys()
    tables, skipped, notices = run_preflight(pipeline, connection, names, optional)
    children = problems.describe_children(pipeline, connection, [table.name for table in tables])
    upgrade = _check_resumable(pipeline, connection)
    return BootstrapChecks(tables, wanted, optional, skipped, [*notices, *children], upgrade)


def _check_resumable(pipeline: Pipeline, connection: Connection) -> Upgrade | None:
    """Raise HistoryLostError when the log cannot go on from the lake's position. A first bootstrap has none yet."""
    slot.check_wal_kept(slot.read_slot(connection, pipeline.settings.source))
    pipeline.lake_follower.cuts.check_capture()
    return check_resumable(pipeline)


def _find_optional(pipeline: Pipeline, names: Sequence[TableName]) -> Set[TableName]:
    """The tables whose refusal does not fail the bootstrap: stopped ones, and new ones that only a pattern names."""
    lake = pipeline.lake_follower
    new = set(names) - lake.bookmarks().keys() - set(pipeline.settings.selection.names)
    return new | {stop.name for stop in lake.tables.stops()}

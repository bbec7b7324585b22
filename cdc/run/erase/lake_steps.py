"""The row in the lake: its dead letters, versions of histories, deleted rows in files, and the past of all of these."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final

from cdc.config.settings import VIEWS
from cdc.core.errors import PreconditionError
from cdc.core.table import Table, TableName
from cdc.run import dead_letters
from cdc.run.erase.progress import FOLDER
from cdc.run.erase.target import ErasureTarget, list_epochs_of, list_views_of, of_history
from cdc.run.erase.values import Sought
from cdc.run.follow.follow import bring_on
from cdc.run.follow.process_streams import Say
from cdc.run.pipeline import Pipeline
from cdc.run.signatures import SigningKey
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.history.erasing import erase_rows
from cdc.sinks.lake.layout import Lake, open_table
from cdc.sinks.lake.metadata.dead_letters import FOLDER as LETTERS
from cdc.sinks.lake.metadata.dead_letters import DeadLetter
from cdc.sinks.lake.table.erasure import delete_past, has_live, rewrite_deleted
from cdc.sinks.lake.table.writer import TableWriter

ROUNDS: Final = 3
"""How often the followers are brought on until all of them stand at the rewritten tables."""


@dataclass(frozen=True, slots=True)
class HoldingTable:
    """A table of the lake that may hold the row. `key`: the columns that tell; empty for a view."""

    name: TableName
    key: tuple[str, ...]


def list_held(pipeline: Pipeline, target: ErasureTarget) -> list[HoldingTable]:
    """The table, its histories, and the views made of them."""
    histories = [epoch.name for epoch in list_epochs_of(pipeline, target.table.name)]
    views = list_views_of(pipeline, target)
    return [
        *(HoldingTable(name, target.table.key) for name in (target.table.name, *histories)),
        *(HoldingTable(name, ()) for name in views),
    ]


def drop_letters(pipeline: Pipeline, target: ErasureTarget, sought: Sought) -> int:
    """Drop the row's dead letters, and apply what waits behind them."""
    with pipeline.reopened() as own:
        letters = [letter for letter in own.lake_follower.letters.all() if _is_about(letter, target, sought)]
        if letters:
            dead_letters.drop(own, [letter.location for letter in letters])
    return len(letters)


def _is_about(letter: DeadLetter, target: ErasureTarget, sought: Sought) -> bool:
    message = letter.message
    if letter.table == target.table.name and target.is_key(message.key):
        return True
    return sought.is_in(message.key) or sought.is_in(message.value)


def erase_versions(pipeline: Pipeline, target: ErasureTarget, signing: SigningKey) -> int:
    """Erase the row's versions from all epochs of the table's history."""
    count = 0
    for epoch in list_epochs_of(pipeline, target.table.name):
        assert epoch.opened is not None
        writer = _open_writer(pipeline, epoch.opened.log, epoch.opened.table)
        key = of_history(epoch.opened.table).key
        count += erase_rows(
            writer, epoch.opened.facts, key, target.holds, lambda content: (signing.public, signing.sign(content))
        )
    return count


def rewrite(pipeline: Pipeline, target: ErasureTarget) -> int:
    """Write the files anew that hold the row though it is deleted; of views all with deleted rows.

    Raises PreconditionError while a table has the row.
    """
    count = 0
    for held in list_held(pipeline, target):
        opened = open_table(pipeline.lake, held.name)
        if opened is None:
            continue
        writer = _open_writer(pipeline, *opened)
        if held.key and has_live(writer, held.key, target.holds):
            raise PreconditionError(
                f"{held.name} in the lake still has the row", "let `cdc follow` catch up; see `cdc status`"
            )
        count += rewrite_deleted(writer, held.key, target.holds if held.key else None)
    rmtree(_scratch(pipeline), ignore_errors=True)
    return count


def bring_to_rewritten(pipeline: Pipeline, target: ErasureTarget, say: Say) -> None:
    """Bring all followers to cuts that name the tables as they are now.

    Raises PreconditionError for a follower that does not get there.
    """
    behind = list[str]()
    for _ in range(ROUNDS):
        bring_on(pipeline, pipeline.settings.stream_names, say)
        with pipeline.reopened() as own:
            behind = list(find_behind(own, target))
        if not behind:
            return
    raise PreconditionError(
        f"not at the newest version yet: {'; '.join(behind)}", "mend what `cdc status` tells, and run `cdc erase` again"
    )


def find_behind(pipeline: Pipeline, target: ErasureTarget) -> Iterator[str]:
    """Who still needs an older version of a table that may hold the row, in words."""
    wanted = {held.name: _read_version(pipeline.lake, held.name) for held in list_held(pipeline, target)}
    views = {name for name in wanted if pipeline.settings.is_view(name)}
    cuts = {False: pipeline.table_cuts, True: pipeline.views.cuts} if views else {False: pipeline.table_cuts}
    for name, version in wanted.items():
        last = cuts[name in views].last()
        if version is not None and (last is None or last.versions.get(str(name)) != version):
            who = VIEWS if name in views else pipeline.lake_name
            yield f"{who}, whose newest cut has another version of {name}"
    for follower, opened in pipeline.fed.items():
        position = opened.position()
        for name, version in wanted.items():
            if version is None or position is None or not pipeline.settings.holds(follower, name):
                continue
            cut = cuts[name in views or pipeline.settings.holds_views(follower)].find(position.end_offset)
            if cut is None or cut.versions.get(str(name)) != version:
                yield f"{follower}, which has not read {name}"


def delete_pasts(pipeline: Pipeline, target: ErasureTarget) -> int:
    """Leave of each table its present version alone. Raises PreconditionError while somebody needs an older one."""
    if behind := list(find_behind(pipeline, target)):
        raise PreconditionError(f"not at the newest version yet: {'; '.join(behind)}", "run `cdc erase` again")
    logs = [opened[0] for held in list_held(pipeline, target) if (opened := open_table(pipeline.lake, held.name))]
    letters = DeltaLog.open(pipeline.lake.metadata_storage(LETTERS))
    return sum(delete_past(log) for log in [*logs, *([letters] if letters else [])])


def delete_caches(pipeline: Pipeline) -> None:
    """Delete key indexes and copies of rows: the next process makes them again from the lake."""
    rmtree(pipeline.indexes, ignore_errors=True)


def _read_version(lake: Lake, name: TableName) -> int | None:
    opened = open_table(lake, name)
    return opened[0].snapshot.version if opened else None


def _open_writer(pipeline: Pipeline, log: DeltaLog, table: Table) -> TableWriter:
    # its index is thrown away: that of the lake's own writer finds new files by itself
    return TableWriter(table, pipeline.lake.table_storage(table.name), log, _scratch(pipeline) / str(table.name))


def _scratch(pipeline: Pipeline) -> Path:
    return pipeline.state / FOLDER / "index"

"""A checkpoint of a table: its state in one file, so that nobody has to read all commits.

delta-rs makes it on a copy of the log's end in a temporary folder, and it is put in place like everything else here:
durable before the commits that it stands for are forgotten, by the one client of the object store, with its keys.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from deltalake import DeltaTable

from sinks.lake.checkpoint_read import LOG, POINTER, checkpoints_in
from sinks.lake.delta_log import DeltaLog
from sinks.lake.storage import at_once


def write_checkpoint(log: DeltaLog) -> None:
    """Write a checkpoint of the table as `log` has it; raises DeltaError, OSError or CdcError where that fails."""
    with tempfile.TemporaryDirectory(prefix="cdc-checkpoint-") as copy:
        folder = Path(copy, LOG)
        folder.mkdir()
        names = _leading_to(log)
        contents = at_once(log.storage.read, [f"{LOG}/{name}" for name in names])
        for name, content in zip(names, contents, strict=True):
            (folder / name).write_bytes(content)
        DeltaTable(copy).create_checkpoint()
        made = {path.name for path in folder.iterdir()} - {*names}
        # readers go by the pointer: it comes when what it names is there
        for name in sorted(made, key=POINTER.__eq__):
            log.storage.write(f"{LOG}/{name}", (folder / name).read_bytes())
    # nobody can read them, and no reader is sent to them any more
    log.storage.delete([f"{LOG}/{name}" for name in log.damaged if name not in made])
    log.checkpoint, log.damaged = log.state.version, ()


def _leading_to(log: DeltaLog) -> Sequence[str]:
    """The files of the log that make the table: the last checkpoint's, and the commits behind it."""
    names = [name for name in log.storage.names(LOG) if name not in log.damaged]
    parts = {version: files for version, files in checkpoints_in(names).items() if version <= log.state.version}
    start = max(parts, default=-1)
    wanted = {f"{version:020}.json" for version in range(start + 1, log.state.version + 1)}
    return [*parts.get(start, ()), *(name for name in names if name in wanted)]

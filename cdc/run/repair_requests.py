"""Rows that a repair hands to a running `cdc follow`, which alone may write them: files of a folder, as pauses are.

A request outlasts every process: what a killed `cdc follow` has not answered, the next one does again. Doing so twice
is the same as once, since each says as of what version its rows are, and leaves out what has changed since.
"""

import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from cdc.core.errors import CdcError, PreconditionError
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.sinks.lake.index.run_files import make_private_folder

TABLE, VIEW, ANSWER = ".table", ".view", ".answer"
GONE: Final = "__gone"
"""The column that says which keys have no row."""
NO_LSN: Final = Lsn(0)
_FACTS: Final = b"cdc"


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The rows of some keys, and the keys without one, as of version `since` of a table of this id, at an LSN.

    Of a view, keys alone, to be computed anew. `anew`: the index of keys is not to be trusted. `is_history`: without
    any rows, the history of this table is to go on with the rows that the table has.
    """

    name: TableName
    rows: pa.Table
    gone: pa.Table
    table_id: str = ""
    since: int = 0
    lsn: Lsn = NO_LSN
    anew: bool = False
    is_history: bool = False

    @classmethod
    def of_history(cls, name: TableName) -> "RepairRequest":
        """The request that the history of a table goes on with the table's rows."""
        nothing = pa.table({"nothing": pa.nulls(0)})
        return cls(name, nothing, nothing, is_history=True)

    def to_file(self) -> pa.Table:
        """All in one table, with the facts in its schema."""
        gone = self.gone.select([name for name in self.gone.column_names if name in self.rows.column_names])
        both = pa.concat_tables([self.rows, gone], promote_options="default")
        mask = pa.array([False] * self.rows.num_rows + [True] * gone.num_rows, pa.bool_())
        facts = {
            "name": [self.name.schema, self.name.table],
            "key": gone.column_names,
            "table_id": self.table_id,
            "since": self.since,
            "lsn": int(self.lsn),
            "anew": self.anew,
            "is_history": self.is_history,
        }
        return both.append_column(GONE, mask).replace_schema_metadata({_FACTS: json.dumps(facts).encode()})

    @classmethod
    def of_file(cls, both: pa.Table) -> "RepairRequest":
        facts = json.loads(both.schema.metadata[_FACTS])
        mask, held = both[GONE], both.drop_columns([GONE]).replace_schema_metadata(None)
        rows, gone = held.filter(pa.compute.invert(mask)), held.filter(mask).select(facts["key"])
        of_table = (facts["table_id"], facts["since"], Lsn(facts["lsn"]), facts["anew"], facts["is_history"])
        return cls(TableName(*facts["name"]), rows, gone, *of_table)


@dataclass(frozen=True, slots=True)
class RepairAnswer:
    """A request was done: whoever is at this END offset has it. `left`: keys that had changed; `reason`: why nothing
    was done, and its `remedy`."""

    offset: int
    left: int = 0
    reason: str = ""
    remedy: str = ""

    @property
    def refusal(self) -> PreconditionError | None:
        return PreconditionError(self.reason, self.remedy) if self.reason else None


@dataclass(frozen=True, slots=True)
class RepairRequests:
    """The requests to one pipeline's streams on this machine."""

    folder: Path

    def submit(self, request: RepairRequest, kind: str) -> str:
        """Hand a request over; returns its id. The file is its owner's alone: it has rows, as the lake has them."""
        id = uuid.uuid4().hex
        fresh = self.folder / f"{id}.new"
        try:
            make_private_folder(self.folder)
            with pa.OSFile(str(fresh), "wb") as file:
                held = request.to_file()
                with pa.ipc.new_file(file, held.schema) as writer:
                    writer.write_table(held)
            fresh.chmod(0o600)
            fresh.replace(self.folder / f"{id}{kind}")
        except OSError as error:
            # half of it has rows, too
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            told = f"the request cannot be written to {self.folder}: {error.strerror}"
            raise PreconditionError(told, "free space, or correct its rights") from None
        return id

    def is_pending(self) -> bool:
        return any(True for kind in (TABLE, VIEW) for _ in self.folder.glob(f"*{kind}"))

    def read(self, kind: str) -> Mapping[str, RepairRequest]:
        """The requests that wait, by id. One that cannot be read is dropped: who has made it makes another."""
        found = dict[str, RepairRequest]()
        for path in sorted(self.folder.glob(f"*{kind}")):
            try:
                with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
                    found[path.stem] = RepairRequest.of_file(reader.read_all())
            except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
                path.unlink(missing_ok=True)
        return found

    def answer(self, id: str, answer: RepairAnswer) -> None:
        """Tell that a request is done, and end it. Of one that was taken back, nobody takes the answer."""
        waiting = [path for kind in (TABLE, VIEW) if (path := self.folder / f"{id}{kind}").exists()]
        if not waiting:
            return
        # a full disk: it is done once more
        with suppress(OSError):
            fresh = self.folder / f"{id}.{os.getpid()}.new"
            fresh.write_text(json.dumps([answer.offset, answer.left, answer.reason, answer.remedy]))
            fresh.replace(self.folder / f"{id}{ANSWER}")
            for path in waiting:
                path.unlink(missing_ok=True)

    def take_answer(self, id: str) -> RepairAnswer | None:
        """The answer to a request, once; None while there is none."""
        path = self.folder / f"{id}{ANSWER}"
        try:
            answer = RepairAnswer(*json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        path.unlink()
        return answer

    def refuse_all(self, reason: str, remedy: str) -> int:
        """End all requests undone, for this reason: their files have rows. Returns how many there were."""
        ids = [path.stem for kind in (TABLE, VIEW) for path in self.folder.glob(f"*{kind}")]
        for id in ids:
            self.answer(id, RepairAnswer(0, reason=reason, remedy=remedy))
        for path in self.folder.glob("*.new"):
            path.unlink(missing_ok=True)
        return len(ids)

    def withdraw(self, ids: Collection[str]) -> None:
        """Take requests back, and their answers: nobody waits for them."""
        for id in ids:
            for kind in (TABLE, VIEW, ANSWER):
                (self.folder / f"{id}{kind}").unlink(missing_ok=True)


@dataclass(slots=True)
class ViewRequests:
    """The requests to the keeper of views: what it has read is answered once a cut has it."""

    requests: RepairRequests
    _read: dict[TableName, list[str]] = field(default_factory=dict)

    def read(self) -> Mapping[TableName, pa.Table]:
        """Keys to be computed anew, by view."""
        keys = dict[TableName, list[pa.Table]]()
        self._read = {}
        for id, request in self.requests.read(VIEW).items():
            keys.setdefault(request.name, []).append(request.gone)
            self._read.setdefault(request.name, []).append(id)
        return {name: pa.concat_tables(parts) for name, parts in keys.items()}

    def finish(self, views: Collection[TableName], position: Position) -> None:
        for name in views:
            for id in self._read.pop(name, ()):
                self.requests.answer(id, RepairAnswer(position.end_offset))


@dataclass(slots=True)
class _Done:
    id: str
    left: int
    refusal: CdcError | None


@dataclass(slots=True)
class TableRequests:
    """The requests to the lake's stream: what it has done is answered once a cut has it."""

    requests: RepairRequests
    _done: list[_Done] = field(default_factory=list)

    def find_due(self, lsn: Lsn) -> Iterator[tuple[str, RepairRequest]]:
        """The requests whose LSN the lake has reached, that are not done yet."""
        done = {each.id for each in self._done}
        for id, request in self.requests.read(TABLE).items():
            if request.lsn < lsn and id not in done:
                yield id, request

    def note_done(self, id: str, left: int, refusal: CdcError | None = None) -> None:
        self._done.append(_Done(id, left, refusal))

    def is_pending(self) -> bool:
        return self.requests.is_pending()

    def note_cut(self, position: Position) -> None:
        """A cut has what is done so far."""
        done: Sequence[_Done] = self._done
        self._done = []
        for each in done:
            told = (each.refusal.what, each.refusal.remedy) if each.refusal else ()
            self.requests.answer(each.id, RepairAnswer(position.end_offset, each.left, *told))

"""Claims to the topics of a follower: of all who have claimed them, the last one writes.

Kafka fences a writer when a later one initializes the same id (KIP-98), but does not say whose that one is: it may be
an older one of the same process, whose request has come late. A claim tells (the fencing token of *Designing
Data-Intensive Applications*, chapter 8): it is written before the writer is opened, so whoever is fenced finds the
claim of who did it.
"""

import json
import os
import socket
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from cdc.core.errors import CdcError, RefusedError, UnreachableError
from cdc.log.clients.reader import Reader, Record
from cdc.log.clients.single_write import write_record
from cdc.log.clients.topics import Admin, Topic, ensure_topic
from cdc.log.settings import LogSettings
from cdc.sinks.owner import Owner

CLAIM_KEY: Final = b"claim"
"""The key of claims, among the records of a state."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A claim as it is stored. `token`: whose it is."""

    token: str
    process: str


class Claims:
    """The claim of one who writes to a follower, and those of all others, in the topic of its state."""

    def __init__(self, log: LogSettings, owner: Owner, topic: Topic, writer_id: str) -> None:
        self._log = log
        self._owner = owner
        self._topic = topic
        self._id = writer_id
        self._own = _Claim(uuid4().hex, f"process {os.getpid()} on {socket.gethostname()}")
        self._is_made = False

    def hold(self) -> None:
        """Claim the follower the first time, from whoever has it; later, see that nobody else has claimed it since.

        Raises RefusedError when somebody has.
        """
        last = self._read_last() if self._is_made else None
        if last is None:
            # the first time, or somebody has deleted the topic since
            self._make()
        elif last.token != self._own.token:
            raise self._refuse(last)

    def release(self) -> None:
        """Write no more: the next `hold` claims the follower anew."""
        self._is_made = False

    def explain_fence(self) -> CdcError:
        """Why the writer is fenced: RefusedError when somebody else has claimed the follower since.

        Else UnreachableError: this process goes on with a new writer.
        """
        last = self._read_last()
        if last and last.token != self._own.token:
            return self._refuse(last)
        return UnreachableError(
            f"Kafka {self._log.bootstrap} has fenced the writer {self._id}, though nobody else has taken over",
            "nothing to do: the next try opens it again",
        )

    def _make(self) -> None:
        with Admin(self._log) as admin:
            ensure_topic(admin, self._topic)
        value = {**self._owner.as_json(), "claim": self._own.token, "process": self._own.process}
        write_record(self._log, self._topic.name, CLAIM_KEY, json.dumps(value).encode())
        self._is_made = True

    def _refuse(self, other: _Claim) -> RefusedError:
        return RefusedError(
            f"another `cdc follow` has taken over: it writes as {self._id}, in {other.process}",
            "let only one run, on one machine",
        )

    def _read_last(self) -> _Claim | None:
        name, last = self._topic.name, None
        # uncommitted records, too: a claim is outside of transactions, and may lie behind one that is still open
        with Reader(self._log, committed=False) as reader:
            start, until = reader.beginning([name])[name], reader.end([name])[name]
            for partition, end in until.items():
                for record in reader.read(name, partition, start[partition], end):
                    last = self._to_claim(record) or last
        return last

    def _to_claim(self, record: Record) -> _Claim | None:
        if record.key != CLAIM_KEY or record.value is None:
            return None
        value: dict[str, Any] = json.loads(record.value)
        # two pipelines may share a topic by mistake: the other one's claim is not to this follower
        if {name: value[name] for name in self._owner.as_json()} != self._owner.as_json():
            return None
        return _Claim(value["claim"], value["process"])

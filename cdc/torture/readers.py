"""Readers of the followers while everything goes on: what each saw, and when, for the checks at the end."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import httpx
import psycopg
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

import cdc
from cdc.core.errors import CdcError
from cdc.core.table import TableName
from cdc.https import tls_context
from cdc.sinks.opensearch.layout import index_name
from cdc.torture.checks.prefixes import CutSighting
from cdc.torture.checks.registers import Operation
from cdc.torture.site import TortureSite
from cdc.torture.tables import PIPELINE, REGISTERS, TOTAL, VIEW
from cdc.torture.writers.writer import read_clock

PAUSE_SECONDS: Final = 0.4
WAIT_SECONDS: Final = 20.0
_AWAY: Final = (CdcError, DeltaError, OSError, psycopg.OperationalError, httpx.HTTPError)
"""What a reader meets while parts are away; it asks again."""


class Witness(ABC):
    """Asks a follower again and again. `reads`: answers that it got, `broken`: the first that cannot be true."""

    name: ClassVar[str]

    def __init__(self, site: TortureSite) -> None:
        self.site = site
        self.reads = 0
        self.broken: str | None = None
        self.history: list[Operation] = []
        self.sightings: list[CutSighting] = []

    @abstractmethod
    def read(self, pipeline: cdc.PipelineReader) -> None:
        """Ask once, and note the answer."""

    def take_token(self) -> tuple[float, str]:
        """When a token was asked for, and the token."""
        began = read_clock()
        with self.site.connect() as session:
            return began, cdc.token(session)

    def note_registers(self, began: float, found: Mapping[int, int]) -> None:
        ended = read_clock()
        self.history += [Operation(key, value, False, began, ended, self.name) for key, value in found.items()]
        if len(found) != REGISTERS:
            self.break_off(f"{self.name} shows {len(found)} of {REGISTERS} registers, of which none is ever deleted")

    def break_off(self, what: str) -> None:
        self.broken = self.broken or what


class LakeWitness(Witness):
    """Waits for a token, and reads several tables at one cut."""

    name = "lake"

    def read(self, pipeline: cdc.PipelineReader) -> None:
        began, token = self.take_token()
        names = ("public.registers", "public.journal")
        pipeline.wait(token, "lake", *names, seconds=WAIT_SECONDS)
        cut = pipeline.cut(*names)
        registers = query(cut, "public.registers", "SELECT id, value FROM t")
        entries = query(cut, "public.journal", "SELECT writer, count(*) AS n, max(n) AS last FROM t GROUP BY writer")
        self.note_registers(began, {row["id"]: row["value"] for row in registers})
        self.sightings.append(CutSighting(f"lake at {cut.lsn}", began, _by_writer(entries)))


class CutWitness(Witness):
    """Reads the newest cut without a wait: every law holds at each."""

    name = "cuts"

    def read(self, pipeline: cdc.PipelineReader) -> None:
        cut = pipeline.cut("public.accounts", "public.journal", "public.rounds")
        entries = query(cut, "public.journal", "SELECT writer, count(*) AS n, max(n) AS last FROM t GROUP BY writer")
        self.sightings.append(CutSighting(f"cut at {cut.lsn}", None, _by_writer(entries)))
        self._check_total(cut, "public.accounts")
        rounds = query(cut, "public.rounds", "SELECT DISTINCT round FROM t")
        if len(rounds) != 1:
            self.break_off(
                f"cut at {cut.lsn}: public.rounds has rows of {len(rounds)} rounds, and each replaces the last"
            )
        if self.reads % 2:
            views = pipeline.cut(VIEW, "public.accounts")
            self._check_total(views, VIEW)
            self._check_total(views, "public.accounts")

    def _check_total(self, cut: cdc.LakeCut, name: str) -> None:
        total = query(cut, name, "SELECT CAST(sum(balance) AS bigint) AS total FROM t")[0]["total"]
        if total != TOTAL:
            self.break_off(f"cut at {cut.lsn}: the balances in {name} are {total} together, and always {TOTAL}")


class SearchWitness(Witness):
    """Waits for a token, and searches."""

    name = "search"

    def read(self, pipeline: cdc.PipelineReader) -> None:
        began, token = self.take_token()
        pipeline.wait(token, "search", "public.registers", seconds=WAIT_SECONDS)
        index = index_name(PIPELINE, TableName.parse("public.registers"))
        asked = {"size": 100, "query": {"match_all": {}}, "_source": ["id", "value"]}
        url = f"{self.site.endpoints.search_url}/{index}/_search"
        answer = httpx.post(url, json=asked, timeout=WAIT_SECONDS, trust_env=False, verify=tls_context())
        found = [each["_source"] for each in answer.raise_for_status().json()["hits"]["hits"]]
        self.note_registers(began, {int(row["id"]): int(row["value"]) for row in found})


READERS: Final = (LakeWitness, CutWitness, SearchWitness)


def query(cut: cdc.LakeCut, name: str, statement: str) -> list[dict[str, Any]]:
    """The rows of a statement over a table `t` of a cut."""
    table = cut.tables[name]
    asked = QueryBuilder().register("t", DeltaTable(table.path, table.version))
    rows: list[dict[str, Any]] = pa.table(asked.execute(statement).read_all()).to_pylist()
    return rows


def _by_writer(rows: Sequence[Mapping[str, int]]) -> dict[int, tuple[int, int]]:
    return {row["writer"]: (row["n"], row["last"]) for row in rows}


class Witnesses:
    """Readers at work, each in a thread with the pipeline opened for itself."""

    def __init__(self, site: TortureSite) -> None:
        self.readers = [kind(site) for kind in READERS]
        self._site = site
        self._over = threading.Event()
        self._failure: BaseException | None = None

    @property
    def silent(self) -> list[str]:
        """Those who never got an answer."""
        return [each.name for each in self.readers if not each.reads]

    @property
    def reads(self) -> int:
        return sum(each.reads for each in self.readers)

    @contextmanager
    def at_work(self) -> Iterator["Witnesses"]:
        """They read until the context ends."""
        threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in self.readers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def check(self) -> None:
        """Raise what ended one of them: an error that is none of the toolkit's is a fault of `cdc.*`."""
        if self._failure is not None:
            raise self._failure

    def _work(self, reader: Witness) -> None:
        try:
            while not self._over.is_set():
                self._read_on(reader)
                self._over.wait(PAUSE_SECONDS)
        except BaseException as failure:  # noqa: BLE001 - told by `check`
            self._failure = failure

    def _read_on(self, reader: Witness) -> None:
        """Read until something is away."""
        try:
            with cdc.open(self._site.config) as pipeline:
                while not self._over.wait(PAUSE_SECONDS):
                    reader.read(pipeline)
                    reader.reads += 1
        except _AWAY:
            return

"""A prepared pipeline without a copy, in which faults are planted, found by name, and mended by their remedy."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from cdc.cli.output import say
from cdc.config.settings import PipelineSettings
from cdc.connect.source import catalog
from cdc.connect.source.slots import slot
from cdc.progress import SILENT
from cdc.run.copy.capture_setup import PATIENCE, prepare_capture
from cdc.run.copy.snapshot_copy import CopyContext, start_capture
from cdc.run.doctor.check import registered_checks
from cdc.run.doctor.dba_script import make_dba_script
from cdc.run.doctor.parts import AskedParts
from cdc.run.doctor.runner import Finding, examine, select_checks
from cdc.run.pipeline import Pipeline as OpenedPipeline
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.owner import Owner
from cdc.sinks.search.indexes import Indexes
from cdc.sinks.search.settings import SearchSettings
from tests.support.parts.pipelines import Pipeline


@dataclass
class Site:
    """A pipeline, and what its doctor is told: other settings, and answers instead of questions."""

    pipeline: Pipeline
    settings: PipelineSettings
    known: dict[str, Any] = field(default_factory=lambda: {"position": "there"})
    original: PipelineSettings | None = None

    def parts(self) -> AskedParts:
        return AskedParts(OpenedPipeline(self.settings), self.known, PATIENCE)

    def find(self, name: str) -> list[Finding]:
        """What the check of this name finds."""
        checks = [check for check in registered_checks() if check.name == name]
        assert checks, name
        return [finding for finding in examine(self.parts(), checks).findings if finding.check == name]

    def find_all(self, *categories: str) -> list[Finding]:
        return [*examine(self.parts(), select_checks(categories)).findings]

    def run(self, *statements: str) -> None:
        self.pipeline.run(*statements)

    def run_script(self, findings: Iterable[Finding]) -> None:
        """Run what `--fix-sql` prints for these findings, as an administrator does in psql."""
        text = "\n".join(make_dba_script([*findings], self.parts().provider))
        before, begin, rest = text.partition("BEGIN;")
        together, commit, behind = rest.partition("COMMIT;")
        # what stands outside of the transaction is sent line by line: ALTER SYSTEM has to be alone
        self.run(*_list_commands(before), *([begin + together + commit] if begin else []), *_list_commands(behind))

    def change(self, block: str, **values: object) -> None:
        """Other settings, as the file would have them."""
        found = getattr(self.settings, block).model_copy(update=values)
        self.settings = self.settings.model_copy(update={block: found})


def _list_commands(script: str) -> list[str]:
    return [line for line in script.splitlines() if line and not line.startswith("--")]


Step = Callable[[Site], object]


@dataclass(frozen=True)
class Planted:
    """What is planted, by which check it is found, a part of its remedy, and how that is done.

    Without `mend` it is what `--fix-sql` prints. `after` takes away what was planted beside the fault.
    """

    check: str
    plant: Step
    remedy: str
    mend: Step | None = None
    what: str = ""
    after: Step | None = None

    def __str__(self) -> str:
        return self.check


def sql_of(*statements: str) -> Step:
    return lambda site: site.run(*statements)


def put_back(site: Site) -> None:
    """Correct the file."""
    assert site.original
    site.settings = site.original


def each(*steps: Step) -> Step:
    return lambda site: [step(site) for step in steps]


def with_setting(block: str, **values: object) -> Step:
    return lambda site: site.change(block, **values)


def try_fault(site: Site, fault: Planted) -> None:
    """Plant the fault, find it by its name with its remedy, follow that, and find nothing."""
    own = Site(site.pipeline, site.settings, dict(site.known), site.settings)
    assert own.find(fault.check) == []
    try:
        _plant_and_mend(own, fault)
    finally:
        if fault.after:
            fault.after(own)


def _plant_and_mend(own: Site, fault: Planted) -> None:
    fault.plant(own)
    found = own.find(fault.check)
    assert found, f"{fault.check} is not found"
    told = [finding.problem for finding in found]
    assert any(fault.remedy in each.remedy and fault.what in each.what for each in told), told
    if fault.mend:
        fault.mend(own)
    else:
        own.run_script(found)
    assert own.find(fault.check) == []


def prepare(pipeline: Pipeline) -> Site:
    """Make what a bootstrap makes before its first copy, and the index of each table, without Spark."""
    opened = pipeline.opened()
    settings = opened.settings
    names = list(settings.selection.names)
    with opened.open_source() as connection, opened.open_connect() as client:
        tables = catalog.read_tables(connection, names)
        registered = prepare_capture(opened, connection, tables, say)
        context = CopyContext(opened, connection, client, names, registered, say, SILENT)
        with slot.open_slot_snapshot(settings.source, registered.slot):
            start_capture(context, anew=True)
    search = settings.followers["search"]
    assert isinstance(search, SearchSettings)
    cluster = Cluster.of(search)
    indexes = Indexes(cluster, Owner(settings.pipeline.name, "search"), search.prefix, search)
    with open_client(cluster) as index_client:
        indexes.prepare_own(index_client)
        for table in tables:
            behind, fresh = indexes.begin_copy(index_client, table)
            indexes.put_in_place(index_client, table.name, fresh, behind)
    return Site(pipeline, settings)


def literal(text: str) -> str:
    return sql.Literal(text).as_string()

"""The steps of a plan in source, log and Kafka Connect."""

from collections.abc import Collection, Iterator, Mapping

from psycopg import Connection

from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector_state import look_up
from cdc.connect.capture.name_patterns import table_pattern
from cdc.connect.source import publication, published_parts, registration, schema_history
from cdc.connect.source.slots import slot
from cdc.core.table import TableName
from cdc.core.text.plural import format_count
from cdc.log.clients.topics import Admin
from cdc.run.copy.bootstrap import find_unlisted
from cdc.run.copy.bootstrap_checks import BootstrapChecks
from cdc.run.copy.capture_setup import check_topics, list_published, make_registration
from cdc.run.pipeline import Pipeline
from cdc.run.plan.step import PlannedStep, Sign
from cdc.run.tables.capture_parts import build_connector_config, list_topics

_TABLES = "table.include.list"


class CaptureSteps:
    """Compares the parts of a capture with what a bootstrap makes of them."""

    def __init__(
        self, pipeline: Pipeline, connection: Connection, client: ConnectClient, checks: BootstrapChecks
    ) -> None:
        self._pipeline = pipeline
        self._connection = connection
        self._client = client
        self._checks = checks
        self._source = pipeline.settings.source
        self._ours = make_registration(pipeline)

    def list_all(self) -> list[PlannedStep]:
        """The steps in their order. Raises CdcError for what belongs to somebody else."""
        in_source = [*self._of_publication(), *self._of_source()]
        return [*self._of_registration(), *self._of_topics(), *in_source, *self._of_connector()]

    def _of_registration(self) -> Iterator[PlannedStep]:
        if not registration.has_tables(self._connection, self._source):
            yield PlannedStep(Sign.MAKE, "schema", self._source.heartbeat_schema, "our tables in the source")
        found = registration.read_registration(self._connection, self._source, self._pipeline.name)
        if found is None:
            yield PlannedStep(Sign.MAKE, "registration", self._pipeline.name)
        else:
            registration.check_names(found, self._ours)

    def _of_topics(self) -> Iterator[PlannedStep]:
        required = list_topics(self._pipeline, self._checks.names)
        with Admin(self._pipeline.settings.log) as admin:
            check_topics(self._pipeline, self._connection, admin, required)
            present = admin.topics([topic.name for topic in required])
            differing = admin.find_misconfigured([topic for topic in required if topic.name in present])
        for topic in required:
            if topic.name not in present:
                yield PlannedStep(Sign.MAKE, "topic", topic.name, format_count(topic.partitions, "partition"))
        for topic, names in differing:
            yield PlannedStep(
                Sign.CHANGE, "topic", topic.name, ", ".join(f"{name}={topic.config[name]}" for name in names)
            )

    def _of_publication(self) -> Iterator[PlannedStep]:
        name, wanted = self._source.publication, list_published(self._pipeline, self._checks.names)
        has = publication.read_publication(self._connection, name)
        if has is None:
            yield PlannedStep(Sign.MAKE, "publication", name, ", ".join(map(str, wanted)))
        elif added := [table for table in wanted if table not in has]:
            yield PlannedStep(Sign.CHANGE, "publication", name, f"with {', '.join(map(str, added))}")
        if has is not None and not publication.publishes_via_root(self._connection, name):
            yield PlannedStep(Sign.CHANGE, "publication", name, "publish_via_partition_root")
        else:
            yield from self._of_parts(has or ())
        listed = {*self._checks.names, *self._checks.skipped}
        if left_out := [table for table in find_unlisted(self._pipeline, listed) if table in (has or ())]:
            yield PlannedStep(Sign.CHANGE, "publication", name, f"without {', '.join(map(str, left_out))}")

    def _of_parts(self, has: Collection[TableName]) -> Iterator[PlannedStep]:
        """Tables that are published anew, with other rows or columns; only those that are copied again."""
        name, again = self._source.publication, self._checks.again
        parts = published_parts.find_parts(self._connection, self._source)
        sent = publication.read_parts(self._connection, name, parts)
        wrong = published_parts.find_wrong_parts(self._connection, sent, parts)
        publication.check_whole(self._connection, self._source, parts, again.keys())
        if changed := [table for table in wrong if table in has]:
            what = ", ".join(map(str, changed))
            yield PlannedStep(Sign.CHANGE, "publication", name, f"other rows or columns of {what}")

    def _of_source(self) -> Iterator[PlannedStep]:
        for trigger in schema_history.list_missing_triggers(self._connection, self._source):
            if schema_history.may_make_triggers(self._connection):
                yield PlannedStep(Sign.MAKE, "event trigger", trigger)
        found = slot.read_slot(self._connection, self._source)
        # copies without a slot: the changes since then are lost
        if self._pipeline.lake_follower.bookmarks():
            slot.check_exists(found, self._source.slot)
        elif found is None:
            yield PlannedStep(Sign.MAKE, "slot", self._source.slot)

    def _of_connector(self) -> Iterator[PlannedStep]:
        name = self._pipeline.settings.connect.connector
        plugins = self._client.extensions()
        wanted = build_connector_config(self._pipeline, self._connection, self._ours, self._checks.names, plugins)
        has, state = self._client.config(name), look_up(self._client, name)
        if has is None:
            yield PlannedStep(Sign.MAKE, "connector", name)
        elif changed := self._describe_changes(has, {**wanted, "name": name}):
            yield PlannedStep(Sign.CHANGE, "connector", name, f"{changed}; it starts again")
        elif state.failure is not None:
            yield PlannedStep(Sign.CHANGE, "connector", name, f"started again; it has failed: {state.failure}")
        elif state.idle is not None:
            yield PlannedStep(Sign.CHANGE, "connector", name, f"resumed; it is {state.idle}")

    def _describe_changes(self, has: Mapping[str, str], wanted: Mapping[str, str]) -> str:
        """The differing properties by name, and by table for the list of tables: any other value may be a secret."""
        differing = sorted(name for name in has.keys() | wanted.keys() if has.get(name) != wanted.get(name))
        captured = has.get(_TABLES, "").split(",")
        added = [str(table) for table in self._checks.names if table_pattern(table) not in captured]
        return ", ".join(f"{_TABLES} with {', '.join(added)}" if n == _TABLES and added else n for n in differing)

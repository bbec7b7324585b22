"""What a pipeline has in Kafka Connect, in its source, and in the log."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from psycopg.sql import Composed

from cdc.connect.capture import connector
from cdc.connect.source import publication, registration, removal
from cdc.connect.source.slots import slot
from cdc.log.clients.topics import Admin
from cdc.log.names import debezium_heartbeat_topic
from cdc.run.pipeline import Pipeline
from cdc.run.teardown.belonging import Belonging, Belongings


class CaptureBelongings:
    """Finds them, and knows whose they are: what another pipeline has registered, or nobody, is not ours."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._source = pipeline.settings.source
        self.is_ours = False

    def find_connector(self, all_of: Belongings) -> None:
        """The connector, if it reads our slot."""
        name = self._pipeline.settings.connect.connector
        with self._pipeline.open_connect() as client:
            config = client.config(name)
        if config is None:
            return
        if config.get("slot.name") != self._source.slot:
            all_of.kept.append(f"connector {name} reads another slot, and is not this pipeline's")
            return
        self.is_ours = True
        all_of.found.append(Belonging("connector", name, partial(self._remove_connector, name), "with its offsets"))

    def find_in_source(self, all_of: Belongings) -> None:
        """Slot, publication and event triggers, if the pipeline is registered, or its connector reads the slot."""
        with self._pipeline.open_source() as connection:
            registered = registration.read_registration(connection, self._source, self._pipeline.name)
            self.is_ours = self.is_ours or registered is not None
            state = slot.read_slot(connection, self._source)
            published = publication.read_publication(connection, self._source.publication)
            others = removal.list_other_pipelines(connection, self._source, self._pipeline.name)
            triggers = [] if others else removal.list_triggers(connection, self._source)
            has_schema = removal.has_schema(connection, self._source)
        if not self.is_ours:
            return
        if state:
            drop = partial(self._on_source, slot.drop_own, self._source)
            all_of.found.append(Belonging("slot", self._source.slot, drop))
        for trigger in triggers:
            all_of.found.append(self._in_source("event trigger", trigger, removal.make_trigger_drop(trigger)))
        if published is not None:
            name = self._source.publication
            all_of.found.append(self._in_source("publication", name, removal.make_publication_drop(name)))
        if has_schema:
            all_of.last.append(self._find_last(others, all_of))

    def find_topics(self, all_of: Belongings, is_of_follower: Callable[[str], bool]) -> None:
        """The topics of the capture; a prefix has no dot, so no other prefix begins like ours and a dot."""
        prefix = self._pipeline.settings.log.prefix
        beats = debezium_heartbeat_topic(prefix)
        # another prefix may go on behind that of the heartbeats, which ends its name
        names = [
            name
            for name in self._list_topics((f"{prefix}.", beats))
            if not name.startswith(f"{beats}") or name == beats
        ]
        self._add_topics([name for name in names if not is_of_follower(name)], all_of)

    def find_topics_of(self, starts: tuple[str, ...], all_of: Belongings) -> None:
        """The topics of a follower, which begin so."""
        self._add_topics(self._list_topics(starts), all_of)

    def _list_topics(self, starts: tuple[str, ...]) -> list[str]:
        with Admin(self._pipeline.settings.log) as admin:
            return admin.list_names(starts)

    def _add_topics(self, names: list[str], all_of: Belongings) -> None:
        if names and (self.is_ours or self._pipeline.lake_follower.position() is not None):
            all_of.found += [Belonging("topic", name, partial(self._remove_topic, name)) for name in names]
        elif names:
            all_of.kept.append(f"topics {', '.join(names)}: nothing says that they are this pipeline's")

    def _find_last(self, others: list[str], all_of: Belongings) -> Belonging:
        """The registration, with the schema unless others use it."""
        schema, pipeline = self._source.heartbeat_schema, self._pipeline.name
        if not others:
            return self._in_source("schema", schema, removal.make_schema_drop(self._source))
        all_of.kept.append(f"schema {schema} with its event triggers: {', '.join(others)} uses it, too")
        return self._in_source("registration", pipeline, removal.make_forgetting(self._source, pipeline))

    def _in_source(self, kind: str, name: str, statements: Sequence[Composed]) -> Belonging:
        remove = partial(self._on_source, removal.run_removal, statements)
        return Belonging(kind, name, remove, statements=removal.join_statements(statements))

    def _on_source(self, remove: Callable[..., object], *arguments: Any) -> None:
        with self._pipeline.open_source() as connection:
            remove(connection, *arguments)

    def _remove_connector(self, name: str) -> None:
        with self._pipeline.open_connect() as client:
            connector.remove(client, name, self._pipeline.settings.log)

    def _remove_topic(self, name: str) -> None:
        with Admin(self._pipeline.settings.log) as admin:
            admin.delete_wholly([name])

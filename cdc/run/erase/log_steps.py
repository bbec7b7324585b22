"""The row in Kafka: change topics are cut off behind it, compacted ones are compacted at once.

A change topic is read in order, and counts messages by transaction: taking single records out of it would break its
readers. So all goes that lies before an offset, once everybody has read that far.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Final

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.table import TableName
from cdc.core.waiting import wait_until
from cdc.log.clients.eraser import LogEraser, find_records, last_places
from cdc.log.clients.reader import Record
from cdc.log.clients.topics import Admin
from cdc.log.names import change_topic, debezium_heartbeat_topic, latest_topic
from cdc.run.erase.progress import ErasureProgress, read_others
from cdc.run.erase.target import ErasureTarget, list_epochs_of, list_views_of
from cdc.run.erase.values import Sought
from cdc.run.pipeline import Pipeline
from cdc.sinks.latest.settings import LatestSettings
from cdc.sinks.percolator.settings import PercolatorSettings

ROLLING: Final = {"segment.ms": "100", "file.delete.delay.ms": "1000"}
COMPACTING: Final = {
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "1000",
}
COMPACTED_SECONDS: Final = 600.0
"""How long to wait for the brokers' cleaners, which look every 15 s by default."""
ROLL_SECONDS: Final = 2.0
OPEN_SECONDS: Final = 60.0
"""How long to wait for a transaction of the capture that is under way."""
CONFIGS: Final = "topic_settings"
FILLERS: Final = "fillers"


class LogErasure:
    """Erases one row from the topics of a pipeline."""

    def __init__(self, pipeline: Pipeline, target: ErasureTarget, sought: Sought, progress: ErasureProgress) -> None:
        self._log = pipeline.settings.log
        self._pipeline = pipeline
        self._target = target
        self._sought = sought
        self._progress = progress

    def list_topics(self) -> list[str]:
        """All topics of the pipeline, of capture and followers."""
        prefix = self._log.prefix
        own = [name for kind in self._percolators.values() for name in kind]
        with Admin(self._log) as admin:
            found = admin.list_names((f"{prefix}.", debezium_heartbeat_topic(prefix), *own))
        return found

    def find(self, topic: str) -> list[Record]:
        """The records of a topic about the row."""
        return list(find_records(self._log, topic, self._is_about))

    def count(self, topic: str) -> tuple[int, int]:
        """How many records of a topic are about the row, and of how many."""
        about = [self._is_about(record) for record in find_records(self._log, topic, lambda _: True)]
        return sum(about), len(about)

    def roll(self) -> int:
        """Begin new segments behind the row's messages in its change topic; returns how many it has there."""
        topic = change_topic(self._log.prefix, self._target.table.name)
        count, fillers = self._roll(topic)
        # a run that was cut off may have begun the segments already
        known = self._progress.facts.get(FILLERS, {})
        self._progress.note(**{FILLERS: {**known, **{str(p): at for p, at in fillers.items()}}})
        return count

    def cut_off(self) -> int:
        """Delete what lies before the new segments, and events of matches in the same way; returns how many of these.

        Raises PreconditionError while somebody has not read it.
        """
        topic = change_topic(self._log.prefix, self._target.table.name)
        behind = {int(partition): offset for partition, offset in self._progress.facts.get(FILLERS, {}).items()}
        self._check_lake_read(topic, behind)
        self._delete_before(topic, behind)
        if found := self.find(topic):
            self._repeat("segments", "cut")
            raise PreconditionError(f"{topic} has {len(found)} newer messages about the row", "run `cdc erase` again")
        counts = [self._cut_off_events(topic) for topic in self._list_events()]
        return sum(counts)

    def _cut_off_events(self, topic: str) -> int:
        count, fillers = self._roll(topic)
        self._delete_before(topic, fillers)
        return count

    def _roll(self, topic: str) -> tuple[int, Mapping[int, int]]:
        """Begin new segments where the topic has the row; returns how many records it has, and the new offsets."""
        if not (found := self.find(topic)):
            return 0, {}
        self._change(topic, ROLLING)
        with LogEraser(self._log) as eraser:
            fillers = eraser.roll(topic, {record.partition for record in found})
        # else every batch of the capture would begin one
        self._put_back(topic, ("segment.ms",))
        return len(found), fillers

    def _delete_before(self, topic: str, behind: Mapping[int, int]) -> None:
        if behind:
            with LogEraser(self._log) as eraser:
                self._check_groups(eraser, topic, behind)
                eraser.delete_before(topic, behind)

    def _repeat(self, *steps: str) -> None:
        """Let the next run do these steps again."""
        for step in steps:
            self._progress.done.pop(step, None)
        self._progress.note()

    def compact(self) -> int:
        """Compact the topics that have the row until it is gone, tombstones too.

        Raises UnreachableError when the brokers do not do that in time.
        """
        count = 0
        for topic in self.list_compacted():
            found = self.find(topic)
            if not found:
                continue
            count += len(found)
            behind = {partition: offset + 1 for partition, offset in last_places(found).items()}
            with LogEraser(self._log) as eraser:
                self._check_groups(eraser, topic, behind)
            self._change(topic, COMPACTING)
            if not wait_until(partial(self._compact_once, topic), COMPACTED_SECONDS, ROLL_SECONDS):
                raise UnreachableError(
                    f"{topic} is not compacted after {COMPACTED_SECONDS:.0f} s",
                    "does log.cleaner run? then `cdc erase` again",
                )
        return count

    def restore(self) -> None:
        """Set all topics back, also those of an erasure that was cut off."""
        others = [facts.get(CONFIGS, {}) for facts in read_others(self._pipeline.state, self._target.name)]
        for configs in [*others, self._progress.facts.get(CONFIGS, {})]:
            for topic, own in configs.items():
                with LogEraser(self._log) as eraser:
                    eraser.set_own(topic, own)
        self._progress.note(**{CONFIGS: {}})

    def _compact_once(self, topic: str) -> bool:
        if not (found := self.find(topic)):
            return True
        with LogEraser(self._log) as eraser:
            eraser.roll(topic, {record.partition for record in found})
        return False

    def _change(self, topic: str, wanted: dict[str, str]) -> None:
        """Set properties for a while; what they were is kept first."""
        known: dict[str, Any] = self._progress.facts.get(CONFIGS, {})
        with LogEraser(self._log) as eraser:
            if topic not in known:
                self._progress.note(
                    **{CONFIGS: {**known, topic: dict(eraser.read_own(topic, {*ROLLING, *COMPACTING}))}}
                )
            eraser.set_own(topic, wanted)
            # the answer comes before the partition's leader goes by it
            wait_until(lambda: {**eraser.read_own(topic, {*wanted})} == wanted, ROLL_SECONDS)

    def _put_back(self, topic: str, names: tuple[str, ...]) -> None:
        own = self._progress.facts.get(CONFIGS, {}).get(topic, {})
        with LogEraser(self._log) as eraser:
            eraser.set_own(topic, {name: own.get(name) for name in names})

    def _check_lake_read(self, topic: str, behind: Mapping[int, int]) -> None:
        """The lake has every message before these offsets of the table's own topic."""
        position = self._pipeline.lake_follower.position()
        assert position is not None
        read = position.next_offsets.get(topic, {})
        with self._pipeline.open_log() as reader:
            ends = reader.end([topic])[topic]
            if not wait_until(lambda: _reach(reader.end([topic])[topic], behind), OPEN_SECONDS):
                raise UnreachableError(
                    f"a transaction in {topic} stays open at {min(ends.values())}", "see the connector"
                )
            first = reader.beginning([topic])[topic]
            spans = [(partition, max(read.get(partition, 0), first[partition]), at) for partition, at in behind.items()]
            # nobody applies Debezium's tombstones, and no position is behind the last one
            open_ = sum(record.value is not None for span in spans for record in reader.read(topic, *span))
        if open_:
            self._repeat("cut")
            raise PreconditionError(f"the lake has not read {open_} messages of {topic}", "run `cdc erase` again")

    def _check_groups(self, eraser: LogEraser, topic: str, behind: Mapping[int, int]) -> None:
        records = find_records(self._log, topic, lambda record: record.offset < behind.get(record.partition, 0))
        needed = {partition: offset + 1 for partition, offset in last_places(records).items()}
        if groups := sorted(eraser.find_lagging(topic, needed)):
            raise PreconditionError(
                f"consumer group {groups[0]} has not read {topic} up to what is to be deleted",
                "let it read on, or delete the group (kafka-consumer-groups --delete), and run `cdc erase` again",
            )

    def list_cut_off(self) -> list[str]:
        """The topics of which all goes that lies before the row's last message."""
        return [change_topic(self._log.prefix, self._target.table.name), *self._list_events()]

    def _list_events(self) -> list[str]:
        return self._existing([events for events, _, _ in self._percolators.values()])

    def list_compacted(self) -> list[str]:
        followers = self._pipeline.settings.followers.values()
        names = {
            latest_topic(self._log.prefix, name)
            for follower in followers
            if isinstance(follower, LatestSettings)
            for name in self._latest_names()
        }
        return self._existing([*sorted(names), *(present for _, present, _ in self._percolators.values())])

    def _latest_names(self) -> list[TableName]:
        own = self._target.table.name
        epochs = list_epochs_of(self._pipeline, own)
        return [own, *(epoch.name for epoch in epochs), *list_views_of(self._pipeline, self._target)]

    def _existing(self, names: list[str]) -> list[str]:
        with Admin(self._log) as admin:
            return [*admin.topics(names)]

    @cached_property
    def _percolators(self) -> dict[str, tuple[str, str, str]]:
        followers = self._pipeline.settings.followers.items()
        kinds = {name: kind for name, kind in followers if isinstance(kind, PercolatorSettings)}
        return {name: kind.topic_names(self._log.prefix, name) for name, kind in kinds.items()}

    def _is_about(self, record: Record) -> bool:
        if record.topic in self._own_topics and self._target.is_key(record.key):
            return True
        if self._sought.is_in(record.key) or self._sought.is_in(record.value):
            return True
        return self._is_match(record)

    @cached_property
    def _own_topics(self) -> frozenset[str]:
        """The topics whose keys are the row's, or those of its versions."""
        prefix, epochs = self._log.prefix, list_epochs_of(self._pipeline, self._target.table.name)
        latest = [latest_topic(prefix, name) for name in (self._target.table.name, *(epoch.name for epoch in epochs))]
        return frozenset([change_topic(prefix, self._target.table.name), *latest])

    def _is_match(self, record: Record) -> bool:
        """Is it a record of a match of this row, or of this saved search?"""
        kinds = self._percolators
        follower = next((name for name, topics in kinds.items() if record.topic in topics), None)
        if follower is None:
            return False
        settings = self._pipeline.settings.followers[follower]
        assert isinstance(settings, PercolatorSettings)
        table = self._target.table.name
        with suppress(ValueError, TypeError):
            match json.loads(record.key or b""):
                case [[schema, name], str(query), str(row)]:
                    is_query = settings.queries.table == str(table) and query == self._target.document
                    return is_query or ((schema, name) == (table.schema, table.table) and row == self._target.document)
        return False


def _reach(ends: Mapping[int, int], behind: Mapping[int, int]) -> bool:
    return all(ends.get(partition, 0) >= offset for partition, offset in behind.items())

"""What is kept of a pipeline whose followers differ, before it is made anew: its log, its lake, and what was said."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cdc.log.clients.reader import Reader, Record
from cdc.log.names import change_topic, transaction_topic
from tests.cells.world import World
from tests.support.cdc_inprocess import verify

NUMBER: Final = re.compile(r"'id': '(\d+)'")


def keep_evidence(world: World, difference: str, said: Iterable[str], folder: Path) -> None:
    """Write it into a new folder. `difference`: as the proof has found it; it is asked for once more."""
    folder.mkdir(parents=True)
    (folder / "difference").write_text(difference)
    (folder / "difference.again").write_text(str(verify(world.pipeline, world.spark).as_json()))
    (folder / "said").write_text("\n".join(said))
    keys = set(NUMBER.findall(difference))
    for committed in (True, False):
        with Reader(world.pipeline.settings.log, committed=committed) as reader:
            lines = [*_tell_order(world, reader), *_tell_changes(world, reader, keys)]
        (folder / f"log.{'committed' if committed else 'all'}").write_text("\n".join(lines))
    shutil.copytree(world.pipeline.config.parent / "lake", folder / "lake")


def _tell_order(world: World, reader: Reader) -> Iterator[str]:
    for record in _read(reader, transaction_topic(world.pipeline.settings.log.prefix)):
        yield f"{record.offset} at {record.written_ms}: {(record.value or b'').decode()}"


def _tell_changes(world: World, reader: Reader, keys: set[str]) -> Iterator[str]:
    """The messages of these keys, of whichever table."""
    prefix = world.pipeline.settings.log.prefix
    for name in world.pipeline.opened().lake_follower.tables.all():
        for record in _read(reader, change_topic(prefix, name)):
            if keys & set(re.findall(r"\d+", (record.key or b"").decode())):
                value = json.loads(record.value) if record.value else None
                yield json.dumps([record.topic, record.partition, record.offset, record.written_ms, value])


def _read(reader: Reader, topic: str) -> Iterator[Record]:
    begins, ends = reader.beginning([topic])[topic], reader.end([topic])[topic]
    for partition, end in ends.items():
        yield from reader.read(topic, partition, begins[partition], end)

"""Gathers what identifies the row: the values of every version that is left anywhere, before it goes."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc.log.names import change_topic
from cdc.run.erase.scanning import list_texts
from cdc.run.erase.target import ErasureTarget, list_epochs_of, of_history, to_documents
from cdc.run.erase.values import Sought, list_values
from cdc.run.pipeline import Pipeline
from cdc.run.trace.log_row import find_changes
from cdc.run.trace.source_row import SourceSighting
from cdc.sinks.lake.delta.scan import Share, live_rows
from cdc.sinks.lake.layout import open_table
from cdc.sinks.lake.table.erasure import read_versions

WHOLE: Final = 2**62
"""Messages of a partition: all of them."""


def gather(pipeline: Pipeline, target: ErasureTarget, source: SourceSighting) -> list[str]:
    """The identifying values of the row's versions in source, lake, histories and log, that no other row has."""
    found = list_values(_read_rows(pipeline, target, source), target.table)
    return _without_shared(pipeline, target, found)


def _read_rows(pipeline: Pipeline, target: ErasureTarget, source: SourceSighting) -> Iterator[dict[str, Any]]:
    table, lake = target.table, pipeline.lake
    if source.row is not None:
        yield from to_documents(pa.Table.from_batches([source.row]), table)
    for rows in read_versions(lake.table_storage(table.name), table, target.holds):
        yield from to_documents(rows, table)
    for epoch in list_epochs_of(pipeline, table.name):
        assert epoch.opened is not None
        own = of_history(epoch.opened.table)
        for rows in read_versions(lake.table_storage(epoch.name), own, target.holds):
            names = {column.name for column in table.columns}
            for row in to_documents(rows, own):
                yield {name: value for name, value in row.items() if name in names}
    yield from _read_log(pipeline, target)


def _read_log(pipeline: Pipeline, target: ErasureTarget) -> Iterator[dict[str, Any]]:
    topic = change_topic(pipeline.settings.log.prefix, target.table.name)
    with pipeline.open_log() as reader:
        for found in find_changes(pipeline, reader, topic, target.table, target.key, WHOLE):
            if found.row is not None:
                yield dict(found.row)


def _without_shared(pipeline: Pipeline, target: ErasureTarget, values: list[str]) -> list[str]:
    """Those that no live row of another key has in the table: what others have says nothing, and stays."""
    opened = open_table(pipeline.lake, target.table.name)
    if opened is None:
        return values
    left, storage = dict.fromkeys(values), pipeline.lake.table_storage(target.table.name)
    for file in opened[0].snapshot.files.values():
        for rows in live_rows(storage, Share(file), target.table):
            others = rows.filter(pc.invert(target.holds(rows)))
            for texts in list_texts(others):
                for value in [each for each in left if pc.any(pc.match_substring(texts, each)).as_py()]:
                    del left[value]
    return [*left]


def seal_values(values: list[str]) -> bytes:
    import json

    return json.dumps(values).encode()


def unseal_values(content: bytes) -> Sought:
    import json

    return Sought(tuple(json.loads(content)))

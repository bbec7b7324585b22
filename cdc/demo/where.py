"""Where to look after the demo: commands to copy."""

from collections.abc import Iterator
from pathlib import Path

from cdc.core.table import TableName
from cdc.demo.stage import Stage, shown
from cdc.log.names import change_topic, latest_topic, transaction_topic
from cdc.run.pipeline import lake_of


def to_look(on: Stage) -> Iterator[tuple[str, str]]:
    """What there is to see, and how."""
    s = on.settings
    flights, prefix = TableName("public", "flights"), s.log.prefix
    folder = shown(Path(lake_of(s).folder(flights)))
    config = shown(on.config)
    yield "the lake", folder
    yield "read it", f"""python -c "from deltalake import DeltaTable as T; print(T('{folder}').to_pandas().tail())\""""
    yield "search", f"curl '{on.endpoints.search_url}/_cat/indices?v'"
    yield "every change", f"Kafka {s.log.bootstrap}, topic {change_topic(prefix, flights)}"
    yield "order of commits", f"topic {transaction_topic(prefix)}"
    yield "newest rows", f"topic {latest_topic(prefix, flights)} (compacted)"
    yield "state", f"cdc -c {config} status"
    yield "go on", f"cdc -c {config} follow, and change rows in database {s.source.dbname}"
    yield "stop it all", "cdc down"

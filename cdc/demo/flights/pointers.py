"""Pointers printed after the demo: files, topics, and commands to copy."""

from collections.abc import Iterator
from pathlib import Path

from cdc.cli.output import relative_path
from cdc.core.table import TableName
from cdc.demo.environment import Environment
from cdc.log.names import change_topic, latest_topic, transaction_topic
from cdc.run.pipeline import Pipeline
from cdc.sinks.opensearch.layout import index_name
from cdc.sinks.search.settings import SearchSettings

FLIGHTS = TableName("public", "flights")
QUERY = "select carrier, count(*), avg(dep_delay) from f group by 1 order by 2 desc"


def list_pointers(on: Environment) -> Iterator[tuple[str, str]]:
    """Yields names and places or commands."""
    s, config, place = on.settings, relative_path(on.config), Pipeline(on.settings).lake
    lake, folder = relative_path(Path(place.path)), relative_path(Path(place.folder(FLIGHTS)))
    yield "the lake", f"{lake}, a Delta table a folder, for instance {folder}"
    yield (
        "ask it",
        f"""python -c "from deltalake import DeltaTable as T, QueryBuilder as Q; """
        f"""print(Q().register('f', T('{folder}')).execute('{QUERY}').read_all())\"""",
    )
    for search in (f for f in s.followers.values() if isinstance(f, SearchSettings)):
        yield "the search index", f"curl '{search.url}/{index_name(search.prefix, FLIGHTS)}/_search?q=dest:SEA&pretty'"
    yield "every change", f"Kafka {s.log.bootstrap}, topic {change_topic(s.log.prefix, FLIGHTS)}"
    yield "order of commits", f"topic {transaction_topic(s.log.prefix)}"
    yield "newest rows", f"topic {latest_topic(s.log.prefix, FLIGHTS)}, compacted"
    yield "how it stands", f"cdc -c {config} status"
    yield "go on", f"cdc -c {config} follow, and change rows in database {s.source.dbname}"
    yield "stop it all", "cdc down"

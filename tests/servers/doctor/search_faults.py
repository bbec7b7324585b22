"""Faults of a search cluster and of indexes."""

from collections.abc import Callable
from typing import Any

from opensearchpy import OpenSearch

from cdc.core.table import TableName
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.client import open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.search.settings import SearchSettings
from tests.servers.doctor.site import Planted, Site, Step, each, put_back, sql_of, with_setting
from tests.support.parts.ports import free_port

MORE = {"more": {"type": "text"}}


def search_of(site: Site) -> SearchSettings:
    found = site.settings.followers["search"]
    assert isinstance(found, SearchSettings)
    return found


def alias_of(site: Site, table: str = "t") -> str:
    return layout.index_name(search_of(site).prefix, TableName("public", table))


def asked(ask: Callable[[OpenSearch, str], Any]) -> Step:
    """Ask the cluster something of the table's index."""

    def step(site: Site) -> None:
        with open_client(Cluster.of(search_of(site))) as client:
            ask(client, next(iter(client.indices.get_alias(name=alias_of(site)))))

    return step


def set_to(name: str, value: object) -> Step:
    return asked(lambda client, index: client.indices.put_settings(index=index, body={f"index.{name}": value}))


def make_second(site: Site) -> None:
    with open_client(Cluster.of(search_of(site))) as client:
        client.indices.create(index=f"{alias_of(site)}.copy99", body={"aliases": {alias_of(site): {}}})


def drop_second(site: Site) -> None:
    with open_client(Cluster.of(search_of(site))) as client:
        client.indices.delete(index=f"{alias_of(site)}.copy99")


def take_alias(site: Site) -> None:
    with open_client(Cluster.of(search_of(site))) as client:
        removed = {"remove": {"index": f"{alias_of(site)}.copy99", "alias": alias_of(site)}}
        client.indices.update_aliases(body={"actions": [removed]})


def make_foreign(site: Site) -> None:
    with open_client(Cluster.of(search_of(site))) as client:
        client.indices.create(index=alias_of(site, "other"))


def drop_foreign(site: Site) -> None:
    with open_client(Cluster.of(search_of(site))) as client:
        client.indices.delete(index=alias_of(site, "other"))


def drop_index(site: Site) -> None:
    asked(lambda client, index: client.indices.delete(index=index))(site)


def change_search(**values: Callable[[], object]) -> Step:
    def step(site: Site) -> None:
        made = {name: value() for name, value in values.items()}
        followers = {**site.settings.followers, "search": search_of(site).model_copy(update=made)}
        site.settings = site.settings.model_copy(update={"followers": followers})

    return step


SEARCH = (
    Planted("search.answers", change_search(url=lambda: f"http://127.0.0.1:{free_port()}"), "check its url", put_back),
    Planted("search.request_size", change_search(bulk_bytes=lambda: 1 << 30), "lower bulk_bytes", put_back),
    Planted("search.blocks", set_to("blocks.write", value=True), "lift the block", set_to("blocks.write", None)),
    Planted("search.deletes", set_to("gc_deletes", "60s"), '{"index.gc_deletes": "24h"}', set_to("gc_deletes", "24h")),
    Planted("search.refresh", set_to("refresh_interval", "1s"), '"-1"', set_to("refresh_interval", "-1")),
    Planted(
        "search.open",
        asked(lambda client, index: client.indices.close(index=index)),
        "_open",
        asked(lambda client, index: client.indices.open(index=index)),
    ),
    Planted("search.alias", make_second, "POST /_aliases", take_alias, after=drop_second),
    Planted(
        "search.ours",
        each(
            sql_of("CREATE TABLE other (id int PRIMARY KEY)"),
            make_foreign,
            with_setting("source", tables=["public.other"]),
        ),
        "choose another prefix, or delete it",
        drop_foreign,
        after=sql_of("DROP TABLE other"),
    ),
    Planted(
        "search.fields",
        set_to("mapping.total_fields.limit", 1),
        '{"index.mapping.total_fields.limit": 4}',
        set_to("mapping.total_fields.limit", 4),
        after=set_to("mapping.total_fields.limit", layout.MOST_FIELDS),
    ),
    # the last: its remedy takes the index away
    Planted(
        "search.mapping",
        asked(
            lambda client, index: client.indices.put_mapping(
                index=index, body={"properties": {"more": {"type": "text"}}}
            )
        ),
        "DELETE /",
        drop_index,
    ),
)

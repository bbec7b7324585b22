"""Tries whether a cluster takes an index of a given shape: it is made under its own name, and taken away at once."""

import uuid
from collections.abc import Iterable, Iterator

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.core.table import Table
from cdc.sinks.opensearch import layout
from cdc.sinks.opensearch.client import describe_error, find_failure, open_client
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.owner import Owner
from cdc.sinks.search.indexes import Indexes
from cdc.sinks.search.products import Product
from cdc.sinks.search.settings import SearchSettings
from cdc.sinks.search.shape import list_types
from cdc.sinks.search.table_shapes import check_table

_META = "cdc_trial"
"""Of the note in a trial's index: `cdc teardown` finds it by its owner, too."""


def find_refused(settings: SearchSettings, owner: Owner, tables: Iterable[Table]) -> Iterator[ConfigurationError]:
    """Why these tables cannot have the indexes that the settings describe: by their columns, then by the cluster.

    Raises UnreachableError, once the columns are checked, when the cluster does not answer.
    """
    described = [table for table in tables if settings.index_of(table.name)]
    fit = list[Table]()
    for table in described:
        try:
            check_table(table, settings)
            fit.append(table)
        except PreconditionError as error:
            yield _refusal(owner, error.what, error.remedy)
    if fit:
        yield from _try_all(settings, owner, fit)


def _try_all(settings: SearchSettings, owner: Owner, tables: Iterable[Table]) -> Iterator[ConfigurationError]:
    cluster = Cluster.of(settings)
    indexes = Indexes(cluster, owner, settings.prefix or owner.pipeline, settings)
    with open_client(cluster) as client:
        product = Product.ask(client)
        sweep(client, indexes)
        for table in tables:
            reason = product.find_foreign(list_types(indexes.shape_of(table.name).given.properties))
            if reason := reason or _try(client, indexes, table):
                yield _refusal(owner, f"{table.name}: {reason}", f'correct indexes."{table.name}" of this follower')


def sweep(client: OpenSearch, indexes: Indexes) -> None:
    """Take away the trials of this follower that were killed."""
    only = {"filter_path": "*.mappings._meta", "expand_wildcards": "all"}
    found = client.indices.get(index=layout.trial_index(indexes.prefix, "*"), params=only)
    for name, each in found.items():
        if each["mappings"]["_meta"].get(_META) == indexes.owner.as_json():
            client.indices.delete(index=name, params={"ignore_unavailable": "true"})


def _try(client: OpenSearch, indexes: Indexes, table: Table) -> str | None:
    """Why the cluster refuses the table's index; None if it takes it."""
    name = layout.trial_index(indexes.prefix, uuid.uuid4().hex)
    body = indexes.define(client, table, {_META: indexes.owner.as_json()})
    try:
        client.indices.create(index=name, body=body, params={"wait_for_active_shards": "0"})
    except RequestError as error:
        told = error.info if isinstance(error.info, dict) else {}
        if find_failure(indexes.cluster, told.get("error")):
            raise
        return f"the cluster refuses its index: {describe_error(error)}"
    finally:
        client.indices.delete(index=name, params={"ignore_unavailable": "true"})
    return None


def _refusal(owner: Owner, what: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"followers.{owner.follower}: {what}", remedy)

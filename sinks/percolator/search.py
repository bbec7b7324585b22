"""Asks OpenSearch which queries match rows, and which rows match a query."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError, TransportError

from cdc.core.errors import UnreachableError
from cdc.core.table import Table
from cdc.sinks.opensearch.client import describe_error, find_failure, read_reason
from cdc.sinks.opensearch.cluster import Cluster
from cdc.sinks.opensearch.layout import Searchable
from cdc.sinks.opensearch.pages import find_page
from cdc.sinks.percolator.layout import OwnFields
from cdc.sinks.percolator.queries import Key

PAGE: Final = 1000
MOST_HITS: Final = 10_000
"""Of one answer: OpenSearch's default limit (index.max_result_window)."""
MOST_MATCHES: Final = 5_000_000
"""Of one answer, where each query matches each row: 40 MB."""
KEEP_ALIVE: Final = "5m"
MATCH_ALL: Final = '{"match_all":{}}'
MATCH_NONE: Final = '{"match_none":{}}'
MOST_SECONDS: Final = 50
"""For which a node works at a search: less than the client waits, or a node would go on with what nobody waits for."""
TRIES: Final = 3
"""Times that a query has to fail while the node answers all others, until it is the query's fault."""
FIRST_WAIT_SECONDS: Final = 1.0
# or a shard that fails would only be missing, with status 200
WHOLE: Final = {"allow_partial_search_results": "false", "cancel_after_time_interval": f"{MOST_SECONDS}s"}
_PATTERN: Final = re.compile(r"No field mapping can be found for the field with name \[([^\]]*\*[^\]]*)\]")
SLOT: Final = "_percolator_document_slot"
Hit = Mapping[str, Any]


class QueryRefusedError(Exception):
    """OpenSearch does not run a query; the text is its reason."""


def percolate(
    client: OpenSearch,
    index: str,
    own: OwnFields,
    documents: Sequence[str],
    among: Sequence[Key] | None = None,
    most: int | None = None,
) -> Iterator[tuple[Key, Sequence[int]]]:
    """Find the queries (only those `among` these keys) that match any of the documents: the query's key, and the
    documents' places."""
    asked = f'{{"percolate":{{"field":"{own.query}","documents":[{",".join(documents)}]}}}}'
    if among is not None:
        chosen = f'{{"terms":{{"{own.key}":{json.dumps(list(among))}}}}}'
        asked = f'{{"bool":{{"must":{asked},"filter":{chosen}}}}}'
    after, most = "", most or max(min(MOST_HITS, MOST_MATCHES // len(documents)), 1)
    while True:
        # by key, so that the next page goes on behind the last one
        body = f'{{"query":{asked},"sort":["{own.key}"],"size":{most},"_source":false{after}}}'
        hits = client.search(body=body, index=index, params=WHOLE)["hits"]["hits"]
        for hit in hits:
            yield hit["sort"][0], hit["fields"][SLOT]
        if len(hits) < most:
            return
        after = f',"search_after":{json.dumps(hits[-1]["sort"])}'


def find_rows(client: OpenSearch, cluster: Cluster, rows: Searchable, query: str, most: int = sys.maxsize) -> set[Key]:
    """Find the keys of all rows that match a query; raises QueryRefusedError, also for more than `most`."""

    def ask() -> set[Key]:
        found = set[Key]()
        for hits in pages(client, rows.index, query, source=False):
            found.update(_keys(client, rows, hits))
            if len(found) > most:
                raise too_many_rows(most)
        return found

    try:
        return ask_patiently(ask, lambda: [*pages(client, rows.index, MATCH_NONE, source=False)])
    except RequestError as error:
        raise to_refusal(cluster, error) from error


def too_many_rows(most: int) -> QueryRefusedError:
    return QueryRefusedError(f"the matches of all queries would be more than {most} (match_bytes), and it has the most")


Answer = TypeVar("Answer")


def ask_patiently(ask: Callable[[], Answer], probe: Callable[[], object]) -> Answer:
    """Ask, and again after an error that may pass; raises QueryRefusedError when only this fails, TRIES times.

    `probe` asks the same of no query: where that fails, too, it is the cluster's trouble, and its error is raised. An
    error of status 400 is raised at once.
    """
    for number in range(TRIES):
        try:
            return ask()
        except RequestError:
            raise
        except TransportError as error:
            probe()
            failed = error
        time.sleep(FIRST_WAIT_SECONDS * number)
    raise QueryRefusedError(f"OpenSearch answers all other queries, but not this one: {describe_error(failed)}")


def to_refusal(cluster: Cluster, error: RequestError) -> Exception:
    """The refusal of a query; the error itself when it is about the index."""
    body = error.info if isinstance(error.info, dict) else {}
    return error if find_failure(cluster, body.get("error")) else QueryRefusedError(describe(body.get("error")))


def describe(error: object) -> str:
    """Describe why a query is refused, with the reason within: on which field, say."""
    root = error.get("root_cause") if isinstance(error, dict) else None
    # of a search, the error itself only says that all shards have failed
    reason = read_reason(root[0] if root else error)
    if pattern := _PATTERN.search(reason):
        return f"its text asks for fields by the pattern [{pattern[1]}]: name its fields, under `fields`"
    return reason


def all_rows(client: OpenSearch, rows: Searchable) -> Iterator[tuple[Key, Mapping[str, Any]]]:
    """Read all rows of a table, each with its key."""
    for hits in pages(client, rows.index, MATCH_ALL, source=True):
        for hit in hits:
            yield key_of(hit["_source"], rows.table), hit["_source"]


def pages(client: OpenSearch, index: str, query: str, *, source: bool) -> Iterator[Sequence[Hit]]:
    """Read what matches a query, page by page; `source`: with the documents."""
    page = find_page(client, index, PAGE) if source else PAGE
    body = f'{{"query":{query},"size":{page},"sort":["_doc"],"_source":{json.dumps(source)},"track_total_hits":true}}'
    found = client.search(body=body, index=index, params=WHOLE)
    if found["hits"]["total"]["value"] <= page:
        yield found["hits"]["hits"]
        return
    # only now: a scroll costs two more requests
    found = client.search(body=body, index=index, params={**WHOLE, "scroll": KEEP_ALIVE})
    try:
        while found["hits"]["hits"]:
            if failed := found["_shards"]["failed"]:
                raise UnreachableError(f"{failed} shards of index {index} do not answer", "see the cluster's log")
            yield found["hits"]["hits"]
            found = client.scroll(body={"scroll": KEEP_ALIVE, "scroll_id": found["_scroll_id"]})
    finally:
        # until then, or for KEEP_ALIVE, the node keeps the scroll's segments
        client.clear_scroll(body={"scroll_id": [found["_scroll_id"]]})


def _keys(client: OpenSearch, rows: Searchable, hits: Sequence[Hit]) -> Iterable[Key]:
    ids = [hit["_id"] for hit in hits]
    # an id is the key, except for a long one, whose id is a hash
    yield from (id for id in ids if id.startswith("{"))
    if hashed := [id for id in ids if not id.startswith("{")]:
        found = client.mget(body={"ids": hashed}, index=rows.index)
        yield from (key_of(each["_source"], rows.table) for each in found["docs"])


def key_of(document: Mapping[str, Any], table: Table) -> Key:
    """The key of a row, as its key document has it (`cdc.columns.rows.documents`)."""
    return json.dumps({name: document[name] for name in table.key}, ensure_ascii=False, separators=(",", ":"))


def find_failing(client: OpenSearch, index: str, own: OwnFields, documents: Sequence[str]) -> dict[Key, str]:
    """Find the queries that fail at any of these documents, each with the reason.

    Raises the error of a request with the same documents and no query, which is no query's fault.
    """

    def ask(some: Sequence[Key]) -> object:
        return [*percolate(client, index, own, documents, among=some)]

    ask([])
    found = pages(client, index, MATCH_ALL, source=True)
    keys: list[Key] = [hit["_source"][own.key] for hits in found for hit in hits]
    halves, failing = [keys[at : at + MOST_HITS] for at in range(0, len(keys), MOST_HITS)], dict[Key, str]()
    while halves:
        some = halves.pop()
        try:
            # alone: it may have failed since the node was busy with others
            ask_patiently(partial(ask, some), lambda: ask([])) if len(some) == 1 else ask(some)
        except QueryRefusedError as refused:
            failing[some[0]] = str(refused)
        except TransportError as error:
            if len(some) > 1:
                halves += [some[: len(some) // 2], some[len(some) // 2 :]]
                continue
            if not isinstance(error, RequestError):
                raise
            body = error.info if isinstance(error.info, dict) else {}
            failing[some[0]] = describe(body.get("error"))
    return failing

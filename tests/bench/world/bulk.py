"""Raw bulk requests: ready bytes, sent by two threads, nothing read of the answer but whether all was taken."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.bench.goal import Failed

DOCUMENTS, BYTES, THREADS = 1000, 5 * 1024 * 1024, 2
"""As many go into one request as ours sends by default."""

Hit = Mapping[str, Any]


def make_like(url: str, index: str, new: str) -> None:
    """Make an empty index with the mapping of another and the settings that cost something."""
    # whatever it is called: the name may be an alias
    (found,) = httpx.get(f"{url}/{index}", timeout=60).raise_for_status().json().values()
    mappings = {name: value for name, value in found["mappings"].items() if name != "_meta"}
    kept = ("number_of_shards", "number_of_replicas", "refresh_interval")
    settings = {name: found["settings"]["index"][name] for name in kept}
    httpx.put(f"{url}/{new}", json={"mappings": mappings, "settings": settings}, timeout=60).raise_for_status()


def requests(hits: Iterable[Hit], identity: Callable[[Hit], str] = lambda hit: str(hit["_id"])) -> Iterator[bytes]:
    """The bodies that index these documents anew."""
    lines: list[bytes] = []
    size = 0
    for hit in hits:
        action = json.dumps({"index": {"_id": identity(hit)}}, ensure_ascii=False)
        line = f"{action}\n{json.dumps(hit['_source'], ensure_ascii=False)}\n".encode()
        if lines and (len(lines) == DOCUMENTS or size + len(line) > BYTES):
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)


def send(url: str, index: str, bodies: Sequence[bytes]) -> None:
    """Send all requests, and make what they brought visible."""
    with httpx.Client(base_url=url, timeout=120) as client, ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(_post, client, f"/{index}/_bulk?filter_path=errors", body) for body in bodies]:
            done.result()
        client.post(f"/{index}/_refresh").raise_for_status()


def _post(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/x-ndjson"}).raise_for_status()
    if answer.json().get("errors"):
        raise Failed("the index refused documents of a raw bulk request")

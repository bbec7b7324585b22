"""How many documents are asked for at once: their bytes decide, since a node has all of an answer in memory, often."""

from typing import Final

from opensearchpy import OpenSearch

PAGE_BYTES: Final = 2 * 1024 * 1024


def size_page(count: int, size: int, most: int) -> int:
    """Documents of an answer, of an index of so many documents in `size` bytes: `most`, fewer if they are large.

    A node takes as long for a request as for many small documents of it; large ones come one by one.
    """
    return min(max(PAGE_BYTES * max(count, 1) // max(size, 1), 1), most)


def find_page(client: OpenSearch, index: str, most: int) -> int:
    """The same of an index as it is now, by its name or an alias; `most` where there is none."""
    params = {"ignore_unavailable": "true"}
    found = client.indices.stats(index=index, metric="docs,store", params=params)["_all"]["primaries"]
    if not found:
        return most
    return size_page(int(found["docs"]["count"]), int(found["store"]["size_in_bytes"]), most)

"""The stock way to the index: Structured Streaming on Debezium's topics, bulk requests from `foreachBatch`.

As OpenSearch's Python client documents it (`helpers.bulk`), an index or a delete of the newest change of every key, and
a refresh at the end of each batch. OpenSearch's own Spark connector is not built for this Spark.

Settings: jars, kafka, topics (topic to index), starting_offsets, checkpoint, trigger, search.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opensearchpy import OpenSearch, helpers
from pyspark.sql import DataFrame, Row

from tests.bench.stock.envelope import changes, newest_per_key
from tests.bench.stock.session import ROW, session, told


def actions(rows: Iterable[Row], indexes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """An action of the bulk interface for each change."""
    for row in rows:
        place = {"_index": indexes[row["topic"]], "_id": str(row["id"])}
        if row["op"] == "d":
            yield {"_op_type": "delete", **place}
        else:
            document = {name: row[name] for name in ROW.names}
            texts = {"amount": str(row["amount"]), "written_at": row["written_at"].isoformat() + "Z"}
            yield {"_op_type": "index", **place, "_source": {**document, **texts}}


class Send:
    """One partition's changes, from a worker."""

    def __init__(self, url: str, indexes: Mapping[str, str]) -> None:
        self._url = url
        self._indexes = indexes

    def __call__(self, rows: Iterable[Row]) -> None:
        client = OpenSearch(self._url, timeout=60)
        _, errors = helpers.bulk(client, actions(rows, self._indexes), chunk_size=1000, raise_on_error=False)
        refused = [error for error in errors if error.get("delete", {}).get("status") != 404]
        if refused:
            raise RuntimeError(f"the index refused {len(refused)} changes, first {refused[0]}")


class Apply:
    """One micro-batch."""

    def __init__(self, url: str, indexes: Mapping[str, str]) -> None:
        self._url = url
        self._indexes = indexes

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        newest_per_key(batch).foreachPartition(Send(self._url, self._indexes))
        OpenSearch(self._url, timeout=60).indices.refresh(index=",".join(self._indexes.values()))


def main() -> None:
    """Run until told to stop."""
    settings = told()
    spark = session("stock search", settings["jars"])
    query = (
        changes(spark, settings)
        .writeStream.foreachBatch(Apply(settings["search"], settings["topics"]))
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(processingTime=settings["trigger"])
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()

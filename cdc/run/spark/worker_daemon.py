"""The daemon that forks Spark's Python workers, after it has imported the modules that they need.

A worker of Spark's own daemon imports them anew, for seconds of processor time. And a worker ends whenever a task stops
before the end of its input, as tasks of large runs do.
"""
# ruff: noqa: E402

import sys

# Spark puts zips of its Python code in front, whose modules are compiled anew each time; the same code is installed
sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]

import pandas
import pyspark.sql.pandas.serializers
import pyspark.worker
from pyspark.daemon import manager

import cdc.log.messages
import cdc.sinks.lake.apply.spark_batch
import cdc.sinks.lake.delta.scan
import cdc.sinks.latest.read
import cdc.sinks.latest.write
import cdc.sinks.opensearch.write
import cdc.sinks.search.read
import cdc.snapshots.copy
import cdc.snapshots.read
from cdc.run.spark.gc_tuning import relax_gc

IMPORTED = (
    pandas,  # pyarrow asks for it, the first time that it is given a list
    pyspark.sql.pandas.serializers,
    pyspark.worker,
    cdc.log.messages,
    cdc.sinks.lake.apply.spark_batch,
    cdc.sinks.lake.delta.scan,
    cdc.sinks.latest.read,
    cdc.sinks.latest.write,
    cdc.sinks.search.read,
    cdc.sinks.opensearch.write,
    cdc.snapshots.copy,
    cdc.snapshots.read,
)

# Spark runs this module in place of its own daemon (`spark.python.daemon.module`)
if __name__ == "__main__":
    # before the fork: children share the frozen objects' memory with this process
    relax_gc()
    manager()

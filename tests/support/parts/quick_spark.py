"""Spark's settings for frames of some rows: to compile what reads them takes longer than to read them."""

from typing import Final

QUICK: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # VACUUM lists folders by 10,000 tasks otherwise
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
QUICK_BLOCK: Final = "".join(f'    {name}: "{value}"\n' for name, value in QUICK.items())
"""The same as lines below `conf:` of a pipeline's file, for verbs that are processes."""

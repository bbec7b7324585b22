"""Lets Kafka's Java clients ask a server for tokens: without a property of Java that names it, they refuse to."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from cdc.log.logins import TOKEN_URLS
from cdc.log.settings import LogSettings

_OPTIONS: Final = "spark.executor.extraJavaOptions"


def let_ask_for_tokens(spark: SparkSession, log: LogSettings) -> None:
    """Let the clients of the driver's Java, which may run already, ask the server of the settings as well."""
    if log.oauth is None:
        return
    jvm: Any = spark.sparkContext._jvm
    if jvm is not None:
        known = str(jvm.System.getProperty(TOKEN_URLS) or "")
        if log.oauth.token_url not in known.split(","):
            jvm.System.setProperty(TOKEN_URLS, ",".join(filter(None, (known, log.oauth.token_url))))


def executors_conf(conf: Mapping[str, str], log: LogSettings) -> dict[str, str]:
    """Spark's setting that lets the executors ask, behind the options that `conf` gives them."""
    if log.oauth is None:
        return {}
    return {_OPTIONS: f"{conf.get(_OPTIONS, '')} -D{TOKEN_URLS}={log.oauth.token_url}".strip()}

"""Spark's settings for a lake on an object store, read through Hadoop's S3A.

Spark only reads there. Delta's LogStore for S3 checks first and then overwrites without a conditional put, so it can
silently drop our commits.
"""

from typing import Final

from pyspark.sql import SparkSession

from cdc.sinks.lake.settings import S3Settings

JARS: Final = "s3a"
"""The name of S3A's jars in `cdc.local.fetch`."""
_S3A: Final = "spark.hadoop.fs.s3a"
_GIVEN: Final = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY: Final = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_FOUND: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_TOKEN: Final = "fs.s3a.session.token"  # noqa: S105


def conf(access: S3Settings) -> dict[str, str]:
    """Spark's settings for this store, without secrets: they appear on the JVM's command line."""
    endpoint = {f"{_S3A}.endpoint": access.endpoint} if access.endpoint else {}
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{_S3A}.endpoint.region": access.region or "",
        f"{_S3A}.path.style.access": str(access.path_style).lower(),
        f"{_S3A}.aws.credentials.provider": _provider(access),
        **endpoint,
    }


def give_keys(spark: SparkSession, access: S3Settings) -> None:
    """Give the keys to a running session: it passes them to its tasks, and no list of processes shows them."""
    if access.access_key_id is None or access.secret_access_key is None:
        return
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", access.access_key_id.get_secret_value())
    hadoop.set("fs.s3a.secret.key", access.secret_access_key.get_secret_value())
    # Spark copied a token from the environment, which belongs to other keys
    hadoop.unset(_TOKEN)
    if access.session_token is not None:
        hadoop.set(_TOKEN, access.session_token.get_secret_value())


def _provider(access: S3Settings) -> str:
    if access.access_key_id is None:
        return _FOUND
    return _GIVEN if access.session_token is None else _TEMPORARY

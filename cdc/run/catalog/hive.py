"""A Hive metastore, by the client that Spark brings along, in the Java of the pipeline's Spark.

Not by Spark's own catalog: a session that has one asks it for every name, and a metastore that is down would stop the
lake. An entry is one of a data source (`spark.sql.sources.provider`), as Spark and Trino expect a Delta table.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from cdc.config.catalog_settings import CatalogSettings
from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.text.error_text import pick_root_cause
from cdc.run.catalog.entry import PIPELINE, SHAPE, Catalog, CatalogEntry, Place

_FORMATS: Final = (
    "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
"""What Spark names for a table whose files Hive cannot read."""
_QUICK: Final = {
    "hive.metastore.client.socket.timeout": "20s",
    "hive.metastore.connect.retries": "1",
    "hive.hmshandler.retry.attempts": "1",
}
_MOST_TEXT: Final = 4000
"""Longest comment that a metastore's database takes."""
T = TypeVar("T")


@contextmanager
def open_hive(settings: CatalogSettings, pipeline: str, spark: SparkSession, folder: Path) -> Iterator[Catalog]:
    """A metastore, as long as the context lasts; raises UnreachableError.

    `folder`: where folders of databases are made by one that is asked in its own database; nothing lies in them.
    """
    jvm = spark._jvm
    assert jvm is not None
    client = _ask(settings, lambda: _connect(settings, jvm, folder))
    try:
        yield HiveCatalog(settings, pipeline, jvm, client)
    finally:
        client.close()


class HiveCatalog:
    def __init__(self, settings: CatalogSettings, pipeline: str, jvm: JVMView, client: JavaObject) -> None:
        self._settings, self._pipeline, self._client = settings, pipeline, client
        self._jvm, self._api = jvm, jvm.org.apache.hadoop.hive.metastore.api
        self._made: set[str] = set()

    def list_own(self) -> Mapping[Place, str]:
        return _ask(self._settings, self._list_own)

    def put(self, entry: CatalogEntry) -> None:
        _ask(self._settings, lambda: self._put(entry))

    def remove(self, place: Place) -> None:
        _ask(self._settings, lambda: self._remove(place))

    def _list_own(self) -> dict[Place, str]:
        prefix = self._settings.prefix or ""
        found = dict[Place, str]()
        for database in self._client.getAllDatabases():
            names = self._client.getAllTables(database) if database.startswith(prefix) else []
            for table in self._client.getTableObjectsByName(database, names) if len(names) else ():
                if table.getParameters().get(PIPELINE) == self._pipeline:
                    found[database, table.getTableName()] = table.getParameters().get(SHAPE) or ""
        return found

    def _put(self, entry: CatalogEntry) -> None:
        database, name = entry.place
        self._make_database(database)
        if not self._client.tableExists(database, name):
            self._client.createTable(self._to_table(entry))
            return
        owner = self._client.getTable(database, name).getParameters().get(PIPELINE)
        if owner != self._pipeline:
            raise PreconditionError(
                f"the catalog has another table at {database}.{name}", "set catalog.prefix to one of this pipeline's"
            )
        self._client.alter_table(database, name, self._to_table(entry))

    def _remove(self, place: Place) -> None:
        # neither its files, nor an error where it is gone already
        self._client.dropTable(*place, False, True)
        if not len(self._client.getAllTables(place[0])):
            self._client.dropDatabase(place[0], False, True, False)

    def _make_database(self, name: str) -> None:
        if name not in self._made and name not in [*self._client.getAllDatabases()]:
            about = f"the lake of cdc's pipeline {self._pipeline}"
            self._client.createDatabase(self._api.Database(name, about, None, self._jvm.java.util.HashMap()))
        self._made.add(name)

    def _to_table(self, entry: CatalogEntry) -> JavaObject:
        table, (reads, writes, serde) = self._api.Table(), _FORMATS
        table.setDbName(entry.place[0])
        table.setTableName(entry.place[1])
        table.setTableType("EXTERNAL_TABLE")
        table.setOwner("cdc")
        table.setPartitionKeys(self._jvm.java.util.ArrayList())
        told = {"EXTERNAL": "TRUE", "spark.sql.sources.provider": "delta", PIPELINE: self._pipeline}
        # the columns of a Delta table are read in its log
        empty = {"spark.sql.sources.schema": '{"type":"struct","fields":[]}', SHAPE: entry.shape}
        comment = {"comment": entry.comment[:_MOST_TEXT]} if entry.comment else {}
        table.setParameters(self._to_map({**told, **empty, **comment}))
        stored = self._api.StorageDescriptor()
        stored.setCols(self._to_columns(entry))
        stored.setInputFormat(reads)
        stored.setOutputFormat(writes)
        # a metastore looks for a folder where it knows the file system only
        if entry.location.startswith("file:"):
            stored.setLocation(entry.location)
        told_serde = self._api.SerDeInfo()
        told_serde.setSerializationLib(serde)
        told_serde.setParameters(self._to_map({"path": entry.location, "serialization.format": "1"}))
        stored.setSerdeInfo(told_serde)
        table.setSd(stored)
        return table

    def _to_columns(self, entry: CatalogEntry) -> JavaObject:
        columns = self._jvm.java.util.ArrayList()
        for each in entry.columns:
            # of Hive's types: it has no time without a zone of its own
            kind = each.type.simpleString().replace("timestamp_ntz", "timestamp")
            columns.add(self._api.FieldSchema(each.name.lower(), kind, each.comment[:_MOST_TEXT] or None))
        return columns

    def _to_map(self, values: Mapping[str, str]) -> JavaObject:
        made = self._jvm.java.util.HashMap()
        for name, value in values.items():
            made.put(name, value)
        return made


def _connect(settings: CatalogSettings, jvm: JVMView, folder: Path) -> JavaObject:
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    for name, value in {**_QUICK, **_address(settings, folder)}.items():
        conf.set(name, value)
    return jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)


def _address(settings: CatalogSettings, folder: Path) -> Mapping[str, str]:
    if not settings.is_database:
        return {"hive.metastore.uris": settings.url}
    driver = "org.postgresql.Driver" if ":postgresql:" in settings.url else "org.apache.derby.jdbc.EmbeddedDriver"
    login = {"javax.jdo.option.ConnectionUserName": settings.username} if settings.username else {}
    if settings.password:
        login["javax.jdo.option.ConnectionPassword"] = settings.password.get_secret_value()
    named = {"javax.jdo.option.ConnectionURL": settings.url, "javax.jdo.option.ConnectionDriverName": driver}
    here = {"hive.metastore.uris": "", "hive.metastore.warehouse.dir": folder.absolute().as_uri()}
    # one that Spark has made says no version
    here["hive.metastore.schema.verification"] = "false"
    # the pool that Hive asks for otherwise is not among Spark's jars
    here["datanucleus.connectionPoolingType"] = "None"
    return {**here, **named, **login}


def _ask(settings: CatalogSettings, ask: Callable[[], T]) -> T:
    """What the metastore answers; raises UnreachableError when it does not, PreconditionError when it refuses."""
    try:
        return ask()
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getSimpleName()
        why = pick_root_cause(str(error)) or kind
        if settings.password:
            why = why.replace(settings.password.get_secret_value(), "…")
        if kind in ("InvalidObjectException", "AlreadyExistsException", "InvalidOperationException"):
            raise PreconditionError(f"the Hive metastore refuses it: {why}", "look at its name there") from error
        what = f"the Hive metastore at {settings.url} does not answer ({why})"
        raise UnreachableError(what, "is it running, and catalog.url its address?") from error

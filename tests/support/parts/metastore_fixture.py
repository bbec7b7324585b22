"""A real Hive metastore: the server in PySpark's jars, with its tables in a Postgres, as a process that a test ends."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import psutil
import psycopg
import pyspark

from cdc.local.fetch.jars import spark_jars
from cdc.local.servers.java import find_java
from tests.support.parts.ports import server_ports
from tests.support.waiting import until

_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Metastore:
    """`database`: of Postgres, where its tables lie, by JDBC."""

    folder: Path
    port: int
    database: str
    username: str
    password: str

    @property
    def url(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[psutil.Popen]:
        """The server, as long as the context lasts."""
        jars = Path(pyspark.__file__).parent / "jars"
        path = os.pathsep.join([str(self.folder), f"{jars}/*", *map(str, spark_jars())])
        self._write_site()
        words = ["-p", str(self.port)]
        command = find_java().command("org.apache.hadoop.hive.metastore.HiveMetaStore", _OPTIONS, words)
        with (self.folder / "log").open("w") as log:
            process = psutil.Popen(
                command, env={**os.environ, "CLASSPATH": path}, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            until(lambda: process.poll() is not None or _answers(self.port), "the metastore answers")
            assert process.poll() is None, (self.folder / "log").read_text()
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(60)

    def _write_site(self) -> None:
        settings = {
            "javax.jdo.option.ConnectionURL": self.database,
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": self.username,
            "javax.jdo.option.ConnectionPassword": self.password,
            "hive.metastore.warehouse.dir": (self.folder / "warehouse").as_uri(),
            # an empty database gets its tables
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "fs.defaultFS": "file:///",
            # their classes are not among PySpark's jars
            "hive.async.log.enabled": "false",
            "datanucleus.connectionPoolingType": "None",
        }
        (self.folder / "hive-site.xml").write_text(to_xml(settings))


def to_xml(settings: Mapping[str, str]) -> str:
    found = "".join(
        f"<property><name>{name}</name><value>{escape(v)}</value></property>" for name, v in settings.items()
    )
    return f"<configuration>{found}</configuration>"


def make_metastore(folder: Path, connection: "psycopg.Connection[object]", password: str, name: str) -> Metastore:
    """A metastore that runs not yet, on a database of its own beside that of this session."""
    connection.execute(f"CREATE DATABASE {name}".encode())
    info = connection.info
    folder.mkdir()
    return Metastore(
        folder, server_ports(1)[0], f"jdbc:postgresql://{info.host}:{info.port}/{name}", info.user, password
    )


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0

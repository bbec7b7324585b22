"""A pipeline of this project that lasts as long as a lab: its file, its process, and all that it has made of parts."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from cdc.config.file import load
from cdc.config.init import template
from cdc.config.settings import PipelineSettings
from cdc.connect.capture.connect_client import ConnectClient
from cdc.connect.capture.connector import forget
from cdc.core.errors import UnreachableError
from cdc.lab.temporary import keep_process
from cdc.lab.waiting import wait_for
from cdc.lab.workplace import Workplace

LATEST: Final = "  latest:\n    kind: latest\n"
READY: Final = "following:"
START_SECONDS: Final = 400.0  # how long Spark and the first copies may take on a busy machine


@contextmanager
def keep_pipeline(place: Workplace, dsn: str, tables: tuple[str, ...], views: str) -> Iterator[PipelineSettings]:
    """Copy these tables of a database, and follow them with a lake, an index and views until the context ends."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    values = replace(place.parts.values, name=name, dbname=name, tables=tables)
    with TemporaryDirectory() as folder:
        config = Path(folder, "cdc.yaml")
        text = template(values).replace(LATEST, "").replace("followers:\n", f"{views}followers:\n", 1)
        config.write_text(text, encoding="utf-8")
        settings = load(config)
        try:
            # a message of Java is told when it is the last word
            with keep_process("cdc.lab.derived.following", str(config), stderr=subprocess.STDOUT) as process:
                _await_followers(process)
                yield settings
        finally:
            _remove(place, dsn, settings)


def _await_followers(process: "subprocess.Popen[str]") -> None:
    """Wait until the process follows. Raises UnreachableError with its last word when it ends before."""
    said = list[str]()
    Thread(target=lambda: said.extend(process.stdout or ()), daemon=True).start()
    wait_for(lambda: process.poll() is not None or any(READY in line for line in said), "followers", START_SECONDS)
    if process.poll() is not None:
        raise UnreachableError(f"the pipeline ended early: {' '.join(said[-1:]).strip()}", "run the lab again")


def _remove(place: Workplace, dsn: str, settings: PipelineSettings) -> None:
    """Remove the connector, so that nobody reads the slot any more, then topics and indexes."""
    name, connector = settings.pipeline.name, settings.connect.connector
    with ConnectClient(settings.connect.url) as client:
        try:
            # else Connect would keep its offsets
            forget(client, connector, settings.log)
        finally:
            client.delete(connector)
    query = "SELECT 1 FROM pg_replication_slots WHERE database = current_database() AND active"
    session = place.session(dsn)
    wait_for(lambda: not session.execute(query).fetchall(), "the end of the connector")
    place.admin.delete_topics([topic for topic in place.admin.list_topics() if name in topic])
    place.search.indices.delete(index=f"{name}-*", params={"ignore_unavailable": "true"})

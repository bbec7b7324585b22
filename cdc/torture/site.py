"""Where a run takes place: a folder of its own with its own parts, the ways to them, a database and a pipeline."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from cdc.local import services
from cdc.local.endpoints import Endpoints, Service
from cdc.local.state_dir import Home
from cdc.progress import Progress
from cdc.torture.proxy import LOOPBACK, Proxy, open_proxy
from cdc.torture.tables import PIPELINE, SCHEMA, TABLES, configure

WIDEST: Final = "25%"
"""Of the machine's memory, as `tmpfs` reads it: the size of the lake's disk, of which it takes what it holds."""


@dataclass(frozen=True, slots=True)
class TortureSite:
    """The parts of one run, and its pipeline. `links`: the ways of the pipeline to them. `disk`: the lake's, if it is a
    disk of its own."""

    folder: Path
    home: Home
    endpoints: Endpoints
    links: Mapping[str, Proxy]
    disk: Path | None

    @property
    def config(self) -> Path:
        return self.folder / "cdc.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def settings(self) -> PipelineSettings:
        return load(self.config)

    @property
    def dsn(self) -> str:
        """The database, not through a link."""
        return self.endpoints.postgres_dsn(PIPELINE)

    def connect(self) -> "psycopg.Connection[Any]":
        """A session that commits every statement by itself."""
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)


@contextmanager
def open_site(folder: Path | None, progress: Progress) -> Iterator[TortureSite]:
    """Start the parts below a folder, by default a new one of the system's; all of it is gone at the end.

    Raises as `cdc.local.services.up` does.
    """
    with ExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="cdc-torture-", dir=folder))).resolve()
        # root's Postgres, which runs as another user, passes through
        root.chmod(0o711)
        home = Home(root / ".cdc")
        held.callback(_remove_parts, home)
        endpoints = services.up(home, None, progress)
        links = {name: held.enter_context(open_proxy(port)) for name, port in _ports(endpoints).items()}
        site = TortureSite(root, home, endpoints, links, held.enter_context(_own_disk(root / "disk")))
        _make_pipeline(site)
        yield site


def _remove_parts(home: Home) -> None:
    services.down(home)
    services.wipe(home)


def _ports(endpoints: Endpoints) -> dict[str, int]:
    """Where each link leads."""
    connect, search = (int(url.rpartition(":")[2]) for url in (endpoints.connect_url, endpoints.search_url))
    source = endpoints.postgres_port
    return {"source": source, "capture": source, "connect": connect, "search": search}


@contextmanager
def _own_disk(folder: Path) -> Iterator[Path | None]:
    """A disk in memory, which can be made full; None where only an administrator may have one."""
    folder.mkdir()
    if os.geteuid() or _mount(folder, f"size={WIDEST}"):
        yield None
        return
    try:
        yield folder
    finally:
        # lazily: what was killed may not have ended yet
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)  # noqa: S603, S607


def _mount(folder: Path, options: str) -> int:
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(words, check=False, capture_output=True).returncode  # noqa: S603


@contextmanager
def fill(disk: Path) -> Iterator[None]:
    """Leave no room on the disk meanwhile."""
    # a size below what is used is refused, and a page more is what this may take until it is set
    used = shutil.disk_usage(disk).used
    if _mount(disk, f"remount,size={used + (64 << 10)}"):
        _mount(disk, f"remount,size={used + (4 << 20)}")
    try:
        yield
    finally:
        _mount(disk, f"remount,size={WIDEST}")


def _make_pipeline(site: TortureSite) -> None:
    with psycopg.connect(site.endpoints.postgres_dsn(), autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(PIPELINE)))
    with site.connect() as session:
        for statement in SCHEMA:
            session.execute(statement.encode())
    site.config.write_text(configure(template(_values(site))), encoding="utf-8")


def _values(site: TortureSite) -> TemplateValues:
    found, links = site.endpoints, site.links
    password = found.postgres_password
    return TemplateValues(
        name=PIPELINE,
        dbname=PIPELINE,
        tables=TABLES,
        host=LOOPBACK,
        port=links["source"].port,
        user=found.postgres_user,
        password=f"${{file:{password.file}}}",
        password_reference=password.reference,
        source_host=LOOPBACK,
        source_port=links["capture"].port,
        bootstrap=found.kafka_bootstrap,
        connect_url=found.connect_reference.replace(found.connect_url.rpartition("/")[2], _address(links["connect"])),
        search_url=f"http://{_address(links['search'])}",
        lake="disk/lake",
    )


def _address(link: Proxy) -> str:
    return f"{LOOPBACK}:{link.port}"


def find_down(site: TortureSite) -> list[Service]:
    """The parts that do not run."""
    return [each.part for each in services.status(site.home) if not each.running]

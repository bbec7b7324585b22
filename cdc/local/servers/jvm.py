"""The common command-line options of the Java services."""

from collections.abc import Sequence
from dataclasses import dataclass
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
        # a killed Java leaves files there; `wipe` removes them with the part's folder
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={LOGGING}",
    )


@dataclass(frozen=True, slots=True)
class Program:
    """A Java program: its main class and arguments, the lock's `jars` for its class path, its largest heap, options."""

    main: str
    arguments: Sequence[str]
    jars: str
    heap: str
    options: Sequence[str] = ()


def launch(site: LaunchContext, part: Service, program: Program) -> Launch:
    """How `program` runs as `part`."""
    java = find_java()
    archive = ClassArchive.of(java.program, map(str, site.files[program.jars]), open_folder(site.cache / FOLDER))
    command = java.command(
        program.main, [*options(site.home, part, program.heap), *program.options, *archive.options()], program.arguments
    )
    return Launch(part, command, site.class_path(program.jars), site.home.folder(part), archive=archive)

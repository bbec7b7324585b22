"""What the Java parts have in common on their command lines."""

from pathlib import Path
from typing import Final

from cdc.local.home import Home

LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def options(home: Home, part: str, heap: str) -> tuple[str, ...]:
    """Java's options for `part`: at most `heap`, logs to the console, scratch files in its own folder."""
    scratch = home.folder(part) / "tmp"
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    return (
        "-Xms64m",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={LOGGING}",
    )

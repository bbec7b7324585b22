"""The jar of our classes for a Kafka Connect of the user's own."""

import shutil
from itertools import chain
from pathlib import Path

from cdc.core.errors import PreconditionError
from cdc.local.fetch.cache import cache_folder
from cdc.local.fetch.jars import fetch
from cdc.local.plugin_jar import build_plugin_jar
from cdc.local.servers.java import find_java
from cdc.progress import SILENT, Progress


def write_connect_jar(folder: Path, progress: Progress = SILENT) -> Path:
    """Write the jar to `folder`; raises as `build_plugin_jar` and `fetch` do, and PreconditionError for the folder."""
    cache = cache_folder()
    compiler, *against = (fetch(part, cache, progress) for part in ("compiler", "connect", "debezium"))
    jar = build_plugin_jar(find_java().program, compiler, [*chain.from_iterable(against)], cache)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(jar, folder))
    except OSError as error:
        raise PreconditionError(f"{folder} cannot be written: {error.strerror}", "name another folder") from None

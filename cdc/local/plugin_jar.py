"""The jar of our classes for Kafka Connect, compiled on the machine that runs it: the repository holds no binaries."""

import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from filelock import FileLock

from cdc.core.errors import PreconditionError
from cdc.local.fetch.cache import open_folder

PLUGIN: Final = Path(str(files("cdc.connect"))) / "plugin"
SOURCES: Final = tuple(sorted(PLUGIN.glob("*.java")))
SERVICES: Final = tuple(sorted(PLUGIN.glob("META-INF/services/*")))
"""Service files of the jar: Connect finds the classes in them without a scan (KIP-898)."""
RELEASE: Final = "17"
JARS: Final = "connect"
_MAIN: Final = "org.eclipse.jdt.internal.compiler.batch.Main"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def build_plugin_jar(java: Path, compiler: Sequence[Path], class_path: Sequence[Path], cache: Path) -> Path:
    """The jar with the converters for Debezium and Connect, by the `compiler`'s jars and against those of `class_path`.

    Compiled once for each text of its sources and set of jars. Raises PreconditionError when it cannot be compiled.
    """
    named = "\n".join(sorted(path.name for path in (*compiler, *class_path)))
    texts = b"".join(path.read_bytes() for path in (*SOURCES, *SERVICES, Path(__file__)))
    made_of = hashlib.sha256(texts + named.encode()).hexdigest()[:16]
    # Connect reads a plugin's jars in the order of their real paths (`PluginUtils`), and ours has a class that has to
    # be found before the driver's, whose jar is in a folder beside this one
    folder = open_folder(cache / JARS)
    jar = folder / f"cdc-connect-{made_of}.jar"
    with FileLock(folder / ".lock"):
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                classes = Path(scratch) / "classes"
                _compile(java, compiler, class_path, classes)
                # put in place whole: a process that is killed leaves no half of it
                made = _pack(classes, Path(scratch) / jar.name)
                # a Connect of another user reads it, whatever the umask
                made.chmod(0o644)
                made.replace(jar)
    return jar


def _compile(java: Path, compiler: Sequence[Path], class_path: Sequence[Path], classes: Path) -> None:
    jars, against = (":".join(map(str, paths)) for paths in (compiler, class_path))
    options = ["-source", RELEASE, "-target", RELEASE, "-proc:none", "-nowarn", "-classpath", against]
    command = [str(java), "-cp", jars, _MAIN, *options, "-d", str(classes), *map(str, SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise PreconditionError(
            f"our classes for Kafka Connect cannot be compiled by {java}: {lines[-1] if lines else 'it says nothing'}",
            "put a Java 17 or newer on PATH, or set JAVA_HOME to it",
        )


def _pack(classes: Path, jar: Path) -> Path:
    content = {file.relative_to(classes): file.read_bytes() for file in sorted(classes.rglob("*.class"))}
    services = {file.relative_to(PLUGIN): file.read_bytes() for file in SERVICES}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, held in {**content, **services}.items():
            # one date for all: the same classes are the same bytes, whenever they were compiled
            archive.writestr(zipfile.ZipInfo(str(name), _EPOCH), held)
    return jar

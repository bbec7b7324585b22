"""The converter's jar, compiled on the machine that runs it: the repository holds no binaries."""

import hashlib
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from filelock import FileLock

from cdc.core.errors import PreconditionError
from cdc.local.fetch.cache import open_folder

SOURCE: Final = Path(__file__).with_name("ExactText.java")
CLASS: Final = "cdc.connect.ExactText"
LISTED: Final = "META-INF/services/org.apache.kafka.connect.transforms.predicates.Predicate"
"""What is named in this file of a jar, Connect finds without looking through all classes (KIP-898)."""
RELEASE: Final = "17"
_MAIN: Final = "org.eclipse.jdt.internal.compiler.batch.Main"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def converter(java: Path, compiler: Sequence[Path], class_path: Sequence[Path], cache: Path) -> Path:
    """The jar with the converter for Debezium, by the `compiler`'s jars and against those of `class_path`.

    Compiled once for each text of its source and set of jars. Raises PreconditionError when it cannot be compiled.
    """
    named = "\n".join(sorted(path.name for path in (*compiler, *class_path)))
    made_of = hashlib.sha256(SOURCE.read_bytes() + Path(__file__).read_bytes() + named.encode()).hexdigest()[:16]
    folder = open_folder(cache / "plugin")
    jar = folder / f"cdc-exact-text-{made_of}.jar"
    with FileLock(folder / ".lock"):
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                classes = Path(scratch) / "classes"
                _compile(java, compiler, class_path, classes)
                # put in place whole: a process that is killed leaves no half of it
                _packed(classes, Path(scratch) / jar.name).replace(jar)
    return jar


def _compile(java: Path, compiler: Sequence[Path], class_path: Sequence[Path], classes: Path) -> None:
    jars, against = (":".join(map(str, paths)) for paths in (compiler, class_path))
    options = ["-source", RELEASE, "-target", RELEASE, "-proc:none", "-nowarn", "-classpath", against]
    command = [str(java), "-cp", jars, _MAIN, *options, "-d", str(classes), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise PreconditionError(
            f"{SOURCE.name} cannot be compiled by {java}: {told[-1] if told else 'it says nothing'}",
            "put a Java 17 or newer on PATH, or set JAVA_HOME to it",
        )


def _packed(classes: Path, jar: Path) -> Path:
    content = {str(file.relative_to(classes)): file.read_bytes() for file in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, held in {**content, LISTED: CLASS.encode()}.items():
            # one date for all: the same classes are the same bytes, whenever they were compiled
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), held)
    return jar

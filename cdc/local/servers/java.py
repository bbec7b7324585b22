"""The Java that runs the parts: found, and known to be good enough before anything is started."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc.core.errors import PreconditionError

OLDEST: Final = 17
LATE_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""The second compiler starts ten times later than usual: during a start, compiling takes longer than it saves."""
BRIEF: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""The first compiler only; that alone would leave 48 MB for compiled code, which Spark fills (VirtualMachineError)."""
_REMEDY: Final = f"install a full JDK {OLDEST} or newer and put it on PATH, or set JAVA_HOME to it"
# a JRE trimmed to a few modules starts Kafka, and stops the search node with an error about dates
_NEEDED: Final = frozenset({"java.management", "jdk.localedata", "jdk.unsupported", "jdk.zipfs"})
_COMMON: Final = (
    # a Java that has lost a thread to it may listen on, and do nothing any more
    "-XX:+ExitOnOutOfMemoryError",
    # no files in /tmp, where a killed Java leaves them
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
)


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` program and its major version."""

    program: Path
    version: int

    def command(self, main: str, options: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
        """The command line that runs the class `main`; the class path goes into CLASSPATH."""
        return (str(self.program), *_COMMON, *options, main, *arguments)


def find_java() -> Java:
    """The Java of JAVA_HOME, else of PATH; PreconditionError if there is none, or one too old or too small."""
    program = _program()
    # one start of Java tells both, its version and its modules
    answer = _modules(str(program))
    version = major_version(answer)
    if version is None or version < OLDEST:
        raise PreconditionError(
            f"{program} is {f'Java {version}' if version else f'older than Java {OLDEST}'}", _REMEDY
        )
    if lacking := _NEEDED - module_names(answer):
        raise PreconditionError(f"{program} is a trimmed Java without {', '.join(sorted(lacking))}", _REMEDY)
    return Java(program, version)


def major_version(modules: str) -> int | None:
    """The major version in the output of `java --list-modules`; None if the Java is too old to know modules."""
    found = re.search(r"^java\.base@(\d+)", modules, re.MULTILINE)
    return int(found[1]) if found else None


def module_names(modules: str) -> frozenset[str]:
    """The modules in the output of `java --list-modules`."""
    return frozenset(line.split("@")[0].strip() for line in modules.splitlines())


def _program() -> Path:
    if chosen := os.environ.get("JAVA_HOME"):
        program = Path(chosen) / "bin" / "java"
        if not program.exists():
            raise PreconditionError(f"JAVA_HOME is {chosen}, and there is no bin/java in it", _REMEDY)
        return program
    if found := shutil.which("java"):
        return Path(found)
    raise PreconditionError("no java on PATH, and JAVA_HOME is not set", _REMEDY)


@functools.cache
def _modules(program: str) -> str:
    return subprocess.run(  # noqa: S603
        [program, "--list-modules"], capture_output=True, text=True, check=False, timeout=60
    ).stdout

"""Has the Java of a running session write down what classes it has loaded, for the next one's start.

On demand, as `jcmd PID VM.cds dynamic_dump` does (JDK-8259070), and not when Java ends: that of a killed driver
would go on for ten seconds, a whole core taken, for an archive that nobody keeps.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError

_BEAN, _COMMAND = "com.sun.management:type=DiagnosticCommand", "vmCds"
_INVOKED: Final = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", "[Ljava.lang.String;")
"""What `MBeanServerConnection.invoke` is given."""


def dump_classes(gateway: JavaGateway, path: Path) -> None:
    """Write the archive to `path`; a Java that has no such command leaves nothing there."""
    with suppress(Py4JError):
        _run_diagnostic(gateway, ["dynamic_dump", str(path)])


def _run_diagnostic(gateway: JavaGateway, words: list[str]) -> None:
    java = gateway.jvm
    classes, text = java.java.lang.Class, java.java.lang.String
    # it says where it has written to, and stdout is the user's
    java.java.lang.System.setOut(java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream()))
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    types = _to_array(gateway, classes, [classes.forName(name) for name in _INVOKED])
    # by the interface: py4j finds no method of a class that its module keeps for itself
    invoke = classes.forName("javax.management.MBeanServerConnection").getMethod("invoke", types)
    asked = _to_array(gateway, java.java.lang.Object, [_to_array(gateway, text, words)])
    bean, signature = java.javax.management.ObjectName(_BEAN), _to_array(gateway, text, ["[Ljava.lang.String;"])
    invoke.invoke(server, _to_array(gateway, java.java.lang.Object, [bean, _COMMAND, asked, signature]))


def _to_array(gateway: JavaGateway, of: Any, values: list[Any]) -> Any:
    made = gateway.new_array(of, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made

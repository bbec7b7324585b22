"""Dumps the classes that a session's Java has loaded into a CDS archive, which makes the next start quicker.

On demand, as `jcmd PID VM.cds dynamic_dump` does (JDK-8259070), and not when Java ends. The Java of a killed driver
would go on for ten seconds, using a whole core, for an archive that nobody keeps.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError

_BEAN, _COMMAND = "com.sun.management:type=DiagnosticCommand", "vmCds"
_INVOKED: Final = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", "[Ljava.lang.String;")
"""The parameter types of `MBeanServerConnection.invoke`."""


def dump_classes(gateway: JavaGateway, path: Path) -> None:
    """Write the archive to `path`. A Java without this command writes nothing."""
    with suppress(Py4JError):
        _run_diagnostic(gateway, ["dynamic_dump", str(path)])


def _run_diagnostic(gateway: JavaGateway, words: list[str]) -> None:
    java = gateway.jvm
    classes, text = java.java.lang.Class, java.java.lang.String
    # the command prints the path of the archive, and stdout belongs to the user
    java.java.lang.System.setOut(java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream()))
    server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    types = _to_array(gateway, classes, [classes.forName(name) for name in _INVOKED])
    # by the interface: py4j finds no methods of a class that its module does not export
    invoke = classes.forName("javax.management.MBeanServerConnection").getMethod("invoke", types)
    arguments = _to_array(gateway, java.java.lang.Object, [_to_array(gateway, text, words)])
    bean, signature = java.javax.management.ObjectName(_BEAN), _to_array(gateway, text, ["[Ljava.lang.String;"])
    invoke.invoke(server, _to_array(gateway, java.java.lang.Object, [bean, _COMMAND, arguments, signature]))


def _to_array(gateway: JavaGateway, of: Any, values: list[Any]) -> Any:
    array = gateway.new_array(of, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array

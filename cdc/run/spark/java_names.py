"""Remembers the classes of Java that PySpark asks for by name."""

from py4j.java_gateway import JavaClass, JVMView
from pyspark.core.context import SparkContext


class RememberingView(JVMView):  # type: ignore[misc]
    """A view of Java's classes that asks for each name once.

    PySpark asks with each column and each `select`, and Java looks into every jar for a class of that name in each
    package that PySpark imports before the right one: 3 % of the processor time of a session.
    """

    def __getattr__(self, name: str) -> object:
        found = super().__getattr__(name)
        # a package may become a class, when a jar is added
        if isinstance(found, JavaClass):
            self.__dict__[name] = found
        return found


def remember_classes() -> None:
    """Let this process's PySpark ask for each class once."""
    if type(SparkContext._jvm) is JVMView:
        SparkContext._jvm.__class__ = RememberingView

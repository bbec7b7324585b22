"""PySpark asks Java for classes by name, with each column and each select."""

import pytest
from py4j.java_gateway import GatewayClient, JavaPackage
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import SparkSession


def test_a_class_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    view = spark.sparkContext._jvm
    assert view is not None
    asked = list[str]()
    really_send = type(view._gateway_client).send_command

    def send(client: GatewayClient, command: str, *arguments: object, **named: object) -> object:
        # Python's garbage collection lets go of other tests' objects meanwhile
        if command.startswith(REFLECTION_COMMAND_NAME):
            asked.append(command)
        return really_send(client, command, *arguments, **named)

    first = view.PythonUtils
    monkeypatch.setattr(type(view._gateway_client), "send_command", send)
    assert view.PythonUtils is first
    assert asked == []
    # a package may become a class, when a jar is added
    assert isinstance(view.shop, JavaPackage)
    assert isinstance(view.shop, JavaPackage)
    assert len(asked) == 2

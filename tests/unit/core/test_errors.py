"""Errors are the same in every process: in one that gets them pickled, and in one that gets their text."""

import inspect
import pickle
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module

from cdc.config.errors import Problem
from cdc.core import errors
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.refusal import Refusal
from cdc.core.table import TableName
from cdc.run.spark.errors import to_cdc_error

PACKAGES = ("cdc",)
FAILURE = PreconditionError("it is full", "make room")
EXAMPLES: dict[object, object] = {
    str: "something",
    bool: True,
    object: "public.things",
    bytes | None: b"key",
    CdcError: FAILURE,
    Refusal: Refusal("topic", 0, 7, "unreadable"),
    Iterable[CdcError]: [FAILURE, CdcError("other")],
    Sequence[TableName]: [TableName("a", "v"), TableName("a", "w")],
    list[Problem]: [Problem(3, "source", "is missing")],
}
"""A value for each type that a constructor of an error takes."""


def error_types() -> Iterator[type[Exception]]:
    """Every exception class of the toolkit, also those that only their module knows."""
    for package in PACKAGES:
        # what begins with two underscores runs a program when it is imported
        found = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        modules = [import_module(each.name) for each in found if "__" not in each.name]
        for module in modules:
            own = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
            yield from (value for value in own if isinstance(value, type) and issubclass(value, Exception))


def make(kind: type[Exception]) -> Exception:
    """An error with an example for each parameter of its constructor, if it has one of its own."""
    parameters = [*inspect.signature(kind).parameters.values()] if _takes_more_than_text(kind) else []
    values = {each.name: EXAMPLES[each.annotation] for each in parameters}
    named = {each.name: values[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
    return (
        kind(*(value for name, value in values.items() if name not in named), **named) if values else kind("it broke")
    )


def _takes_more_than_text(kind: type[Exception]) -> bool:
    return any("__init__" in vars(base) for base in kind.__mro__ if base.__module__.partition(".")[0] in PACKAGES)


def show(error: Exception) -> dict[str, str]:
    """What it has, as text; a set has no order, and another one once it is pickled."""
    return {name: repr(sorted(value) if isinstance(value, frozenset) else value) for name, value in vars(error).items()}


def test_every_error_reaches_another_process_as_it_was() -> None:
    kinds = list(error_types())
    assert errors.TopicLostError in kinds
    for kind in kinds:
        error = make(kind)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(again) is kind
        assert (str(again), again.args) == (str(error), error.args)
        assert show(again) == show(error)


def test_an_error_of_which_a_task_left_the_text_keeps_type_and_line() -> None:
    kinds = [kind for kind in error_types() if kind.__module__ == errors.__name__ and issubclass(kind, CdcError)]
    assert errors.TableLostError in kinds
    for kind in kinds:
        raised = make(kind)
        again = to_cdc_error("the copy", RuntimeError(f"Traceback:\n{kind.__module__}.{kind.__name__}: {raised}\n"))
        assert type(again) is kind
        assert again.lines == (str(raised),)

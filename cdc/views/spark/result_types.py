"""From the types of a statement's result, which Spark decides, to the columns of its view."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import types as T

from cdc.columns.types.registry import type_of
from cdc.columns.types.spark_types import spark_type, to_column
from cdc.core.errors import PreconditionError
from cdc.core.table import Column, Table
from cdc.views.definition import ViewDefinition


def describe_view(view: ViewDefinition, result: T.StructType, sources: Mapping[str, Column]) -> Table:
    """The view as a table. `sources`: by name, columns of the result that are columns of a table, unchanged.

    Those keep their kind: JSON stays JSON. Raises PreconditionError for a type or a key that a view cannot have.
    """
    columns = tuple(_describe(view, field, sources.get(field.name.lower())) for field in result.fields)
    names = {column.name.lower(): column for column in columns}
    if len(names) < len(columns):
        raise _error(view, "two columns of its result have the same name")
    for name in view.key:
        if name.lower() not in names:
            raise _error(view, f"its result has no column {name}, which is in its key")
        column = names[name.lower()]
        if column.array or not type_of(column).is_comparable:
            raise _error(view, f"column {name} can be in no key: it is {spark_type(column).simpleString()}")
    return Table(view.name, columns, tuple(names[name.lower()].name for name in view.key))


def _describe(view: ViewDefinition, field: T.StructField, source: Column | None) -> Column:
    if source is not None and spark_type(source) == field.dataType:
        return replace(source, name=field.name, number=0, added=False)
    column = to_column(field.name, field.dataType)
    if column is None:
        raise _error(view, f"column {field.name} is {field.dataType.simpleString()}, which a view cannot hold")
    return column


def _error(view: ViewDefinition, reason: str) -> PreconditionError:
    return PreconditionError(f"views.{view.name}: {reason}", "correct its sql or its key")

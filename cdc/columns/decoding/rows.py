"""The rows of one table in messages: their msgspec type, and their conversion to columns."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from cdc.columns.arrays import Mask
from cdc.columns.decoding.envelope import CONVERSION_ERRORS, RefusedMessageError, values_of
from cdc.columns.types.arrow_types import arrow_schema
from cdc.columns.types.registry import type_of
from cdc.columns.types.unsupported import UnsupportedValueError
from cdc.core.table import Column, Table


class RowDecoder:
    """Decodes rows of one table; `placeholder` is Debezium's for an unsent value."""

    def __init__(self, table: Table, placeholder: str) -> None:
        self.table = table
        self._placeholder = placeholder
        # a column may have any name, a field must be an identifier
        self._fields = {name: f"c{number}" for number, name in enumerate(table.column_names)}

    def struct(self, name: str, columns: Sequence[Column]) -> Any:
        """Make a msgspec type with exactly these columns: a missing or a further column is an error.

        A column that was added while the table was followed may be missing: older messages do not have it.
        """
        own: list[Any] = [
            (self._fields[column.name], type_of(column).sent_as | None, *([None] if column.added else []))
            for column in columns
        ]
        renamed = {self._fields[column.name]: column.name for column in columns}
        # kw_only: a column that may be missing can stand before one that may not
        return msgspec.defstruct(name, own, rename=renamed, kw_only=True, forbid_unknown_fields=True, gc=False)

    def columns(self, rows: Sequence[Any]) -> tuple[pa.Table, dict[str, Mask]]:
        """Convert rows to the table's columns, null if a row is None.

        Also returns the masks of unsent values: column name → mask, for columns with such values only.
        """
        unsent: dict[str, Mask] = {}
        arrays = []
        for column in self.table.columns:
            values = values_of(rows, self._fields[column.name])
            if type_of(column).is_out_of_line and column.name not in self.table.key:
                values = self._without_placeholder(column, values, unsent)
            arrays.append(type_of(column).from_log(values, column))
        return pa.Table.from_arrays(arrays, schema=arrow_schema(self.table)), unsent

    def column(self, column: Column, structs: Sequence[Any]) -> pa.Array:
        return type_of(column).from_log(values_of(structs, self._fields[column.name]), column)

    def value(self, struct: Any, name: str) -> Any:
        return getattr(struct, self._fields[name])

    def is_unsent(self, value: Any) -> bool:
        # a bytea comes in base64, and msgspec decodes the placeholder in it, too
        return value in (self._placeholder, self._placeholder.encode())

    def check(self, subject: str, columns: Sequence[Column], struct: Any, *, nulls: bool = True, unsent: bool) -> None:
        """Raise RefusedMessageError for the first column that cannot hold its value in this struct.

        `nulls`, `unsent`: are null and unsent values allowed? The error does not quote the value.
        """
        for column in columns if struct is not None else ():
            value = self.value(struct, column.name)
            if (value is None and nulls) or (self.is_unsent(value) and unsent):
                continue
            self._check(f"{subject} {column.name}", column, value)

    def _check(self, subject: str, column: Column, value: Any) -> None:
        if self.is_unsent(value):
            raise RefusedMessageError(f"{subject}: its value was not sent")
        if value is None:
            raise RefusedMessageError(f"{subject}: no {column.kind}")
        try:
            type_of(column).from_log([value], column)
        # before CONVERSION_ERRORS, of which it is one: only this reason has a remedy
        except UnsupportedValueError as unfit:
            choices = " or ".join(type_of(column).wider)
            choice = f" unless it is followed as {choices} (source.column_types)" if choices else ""
            raise RefusedMessageError(f"{subject} holds {unfit}, which followers cannot hold{choice}") from unfit
        except CONVERSION_ERRORS as error:
            raise RefusedMessageError(f"{subject}: no {column.kind}") from error

    def _without_placeholder(self, column: Column, values: list[Any], unsent: dict[str, Mask]) -> list[Any]:
        stands = self._placeholder.encode() if type_of(column).sent_as is bytes else self._placeholder
        if stands not in values:
            return values
        unsent[column.name] = np.array([value == stands for value in values], np.bool_)
        return [None if value == stands else value for value in values]

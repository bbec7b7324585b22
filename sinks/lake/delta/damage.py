"""Tell lost and damaged files of the lake from a failing disk or store."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cdc.core.errors import CdcError, PreconditionError, TableLostError

Part = TypeVar("Part")


def describe_damage(error: OSError | ValueError) -> str | None:
    """Describe the file's damage; None when the error says nothing about the file."""
    if isinstance(error, FileNotFoundError):
        return "is gone"
    # Arrow raises OSError without errno for bytes that are not Parquet; the operating system always sets errno
    if isinstance(error, OSError) and error.errno not in (None, errno.EIO):
        return None
    return "is damaged"


def loss_reason(error: CdcError) -> str:
    """Why this error costs us the table. A precondition keeps its remedy, as only the user can fix it."""
    if isinstance(error, TableLostError):
        return error.why
    return f"{error.what} ({error.remedy})" if isinstance(error, PreconditionError) else error.what


@contextmanager
def reading(table: object, path: str) -> Iterator[None]:
    """Raise TableLostError with table and path when the file is gone or damaged."""
    try:
        yield
    except (OSError, ValueError) as error:
        if not (damage := describe_damage(error)):
            raise
        raise TableLostError(table, f"file {path} of the lake {damage}") from error


def read_parts(parts: Iterable[Part], table: object, path: str) -> Iterator[Part]:
    """Yield the parts of a file; raises as `reading` does."""
    several = iter(parts)
    while True:
        # yield outside the context: the consumer's errors do not concern this file
        with reading(table, path):
            part = next(several, None)
        if part is None:
            return
        yield part

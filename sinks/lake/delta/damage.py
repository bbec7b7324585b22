"""Files of the lake that are gone or damaged, told from a disk or a store that fails."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cdc.core.errors import CdcError, PreconditionError, TableLostError

Part = TypeVar("Part")


def damage_of(error: OSError | ValueError) -> str | None:
    """What is wrong with the file at which this was raised; None where it says nothing of the file."""
    if isinstance(error, FileNotFoundError):
        return "is gone"
    # Arrow raises OSError without a number for bytes that are no Parquet; a disk has a number for what it cannot do
    if isinstance(error, OSError) and error.errno not in (None, errno.EIO):
        return None
    return "is damaged"


def why(error: CdcError) -> str:
    """Why a table is lost by this: what is wrong with its log as a whole is mended by a copy, the rest by the user."""
    if isinstance(error, TableLostError):
        return error.why
    return f"{error.what} ({error.remedy})" if isinstance(error, PreconditionError) else error.what


@contextmanager
def files_of(table: object, path: str) -> Iterator[None]:
    """Raise TableLostError, which names the table and the file, where this file of the table is gone or damaged."""
    try:
        yield
    except (OSError, ValueError) as error:
        if not (damage := damage_of(error)):
            raise
        raise TableLostError(table, f"file {path} of the lake {damage}") from error


def parts_of(parts: Iterable[Part], table: object, path: str) -> Iterator[Part]:
    """What is read of a file, part by part; raises as `files_of` does."""
    several = iter(parts)
    while True:
        # what is done with a part meanwhile is no matter of the file's
        with files_of(table, path):
            part = next(several, None)
        if part is None:
            return
        yield part

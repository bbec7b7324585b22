"""The base of every settings model: frozen, and a key that is not known is an error."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

Place = tuple[str | int, ...]
"""A place in the configuration: keys of blocks and indexes of lists, from the top or from a block."""

Finding = tuple[Place, str]
"""What is wrong at a place, as half a sentence."""


class Settings(BaseModel):
    """Values of one block of `cdc.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def refused(place: Place, text: str) -> PydanticCustomError:
    """For a validator to raise: what is wrong at a place of its block."""
    return all_refused([(place, text)])


def all_refused(findings: Sequence[Finding]) -> PydanticCustomError:
    """The same for several places."""
    text = "; ".join(sentence for _, sentence in findings)
    return PydanticCustomError("findings", "{text}", {"text": text, "findings": list(findings)})

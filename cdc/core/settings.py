"""The base of every settings model: frozen, and an unknown key is an error."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

SettingPath = tuple[str | int, ...]
"""A path in the configuration: keys of blocks and indexes of lists, from the top or from a block."""

Finding = tuple[SettingPath, str]
"""A path, and the problem there as half a sentence."""


class Settings(BaseModel):
    """Values of one block of `cdc.yaml`."""

    # the docstrings below settings become the page of settings, and the JSON Schema for editors
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def finding_error(place: SettingPath, text: str) -> PydanticCustomError:
    """Make the error for a validator to raise: `text` is the problem at a path of its block."""
    return findings_error([(place, text)])


def findings_error(findings: Sequence[Finding]) -> PydanticCustomError:
    """Make the error for several paths."""
    text = "; ".join(sentence for _, sentence in findings)
    # the text is no template itself: it may have braces
    return PydanticCustomError("findings", "{text}", {"text": text, "findings": list(findings)})

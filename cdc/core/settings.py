"""The base of every settings model: frozen, and a key that is not known is an error."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Values of one block of `cdc.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

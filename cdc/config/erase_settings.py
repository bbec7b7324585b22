"""The `erase` block: the key that signs what `cdc erase` reports."""

from pydantic import Field, SecretStr

from cdc.core.settings import Settings


class EraseSettings(Settings):
    signing_key: SecretStr | None = None
    """An Ed25519 key as PEM, by reference: `${file:erase.pem}`. It signs reports of `cdc erase` and the tombstones of
    histories, and hides keys of erased rows in the state folder."""
    former_keys: list[str] = Field(default_factory=list)
    """Public keys (hex) that signed before this one: `cdc verify --chain` takes their tombstones, too."""

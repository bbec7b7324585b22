"""Generated passwords, each as a bare file and as a properties file that Kafka Connect can refer to."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from cdc.local.state.files import write, write_properties
from cdc.local.state_dir import Home


@dataclass(frozen=True, slots=True)
class Password:
    """The files of a generated password, without the password itself."""

    file: Path
    properties: Path

    @property
    def reference(self) -> str:
        """The reference that a connector's configuration has in place of the password."""
        return f"${{file:{self.properties}:password}}"

    def read(self) -> str:
        """The password itself."""
        return self.file.read_text(encoding="utf-8")


def password(home: Home, user: str) -> Password:
    """The password of `user` (a Postgres role) in `home`, generated when first asked for."""
    found = Password(home.secrets / f"{user}.password", home.secrets / f"{user}.properties")
    home.make()
    if not found.file.exists():
        write(found.file, secrets.token_urlsafe(24))
    # of the bare file each time: that is the one which somebody puts back
    write_properties(found.properties, {"user": user, "password": found.read()})
    return found


def forget(home: Home) -> None:
    """Remove every generated password of `home`."""
    for file in home.secrets.glob("*.password"):
        file.with_suffix(".properties").unlink(missing_ok=True)
        file.unlink()

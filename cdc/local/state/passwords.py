"""Generated passwords, each as a bare file and as a properties file that Kafka Connect can refer to."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cdc.core.errors import PreconditionError
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


def find_password(home: Home, user: str) -> Password:
    """The password of `user` that was generated before. Raises PreconditionError when its file is gone."""
    found = _files(home, user)
    if not found.file.exists():
        raise PreconditionError(
            f"the password of {user} is gone: {found.file}",
            "put that file back, or run `cdc down --wipe`, which takes the local parts' data with it",
        )
    return found


def password(home: Home, user: str) -> Password:
    """The password of `user` (a Postgres role) in `home`, generated when first asked for."""
    found = _files(home, user)
    home.make()
    if not found.file.exists():
        write(found.file, secrets.token_urlsafe(24))
    # of the bare file each time: that is the one which somebody puts back
    write_properties(found.properties, {"user": user, "password": found.read()})
    return found


def _files(home: Home, user: str) -> Password:
    return Password(home.secrets / f"{user}.password", home.secrets / f"{user}.properties")


def forget(home: Home, users: Iterable[str]) -> None:
    """Remove the generated passwords of these users; what somebody else has put beside them stays."""
    for user in users:
        found = _files(home, user)
        found.properties.unlink(missing_ok=True)
        found.file.unlink(missing_ok=True)

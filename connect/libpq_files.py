"""libpq's service file and password file, read once for all clients (manual, "The Connection Service File").

Debezium knows neither. So what they say is put into the settings, and every client gets the same.
"""

import configparser
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

NAMES: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in (
            *("host", "port", "dbname", "user", "password", "passfile", "target_session_attrs"),
            *("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding"),
        )
    },
    "connect_timeout": "connect_timeout_seconds",
}
"""What a service may set → our setting."""
_FIELDS: Final = 5


class FileProblemError(Exception):
    """What is wrong with a file of libpq; the text is half a sentence without a secret."""


def read_service(name: str, file: str | None = None) -> dict[str, str]:
    """Read a service, as our settings name its values. Raises FileProblemError.

    `file`: by default the one that libpq takes, by PGSERVICEFILE, in the home folder, or in that of PGSYSCONFDIR.
    """
    for path in [Path(file).expanduser()] if file else _service_files():
        if found := _read_section(path, name):
            if unknown := sorted(found.keys() - NAMES.keys()):
                raise FileProblemError(
                    f"of {path} sets {', '.join(unknown)}, which not every client of the source takes"
                )
            return {NAMES[key]: value for key, value in found.items()}
    raise FileProblemError(f"is in none of {', '.join(map(str, [file] if file else _service_files()))}")


def _service_files() -> list[Path]:
    own = os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf"
    shared = os.environ.get("PGSYSCONFDIR")
    return [Path(own).expanduser(), *([Path(shared, "pg_service.conf")] if shared else [])]


def _read_section(path: Path, name: str) -> Mapping[str, str]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FileProblemError(f"cannot be read: {path}: {(error.strerror or 'error').lower()}") from None
    except (configparser.Error, ValueError):
        # their texts quote lines of the file
        raise FileProblemError(f"cannot be read: {path} is no service file") from None
    return dict(parser[name]) if parser.has_section(name) else {}


def read_password(file: str, host: str, port: int, dbname: str, user: str) -> str:
    """Find the password of a role in a password file. Raises FileProblemError.

    Several hosts, with commas between, have to have one password: Debezium is sent one.
    """
    path = Path(file).expanduser()
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise FileProblemError(
                f"{path} can be read by others than its owner, and libpq leaves it aside; chmod 600 it"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise FileProblemError(f"{path} cannot be read: {(error.strerror or 'error').lower()}") from None
    except ValueError:
        raise FileProblemError(f"{path} is not UTF-8 text") from None
    found = {next(_find(lines, (each, str(port), dbname, user)), "") for each in host.split(",")}
    if found == {""}:
        raise FileProblemError(f"{path} has no line for this host, port, database and role")
    if len(found) > 1:
        raise FileProblemError(f"{path} has not one password for all of the hosts")
    return found.pop()


def _find(lines: list[str], wanted: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        fields = list(_split(line)) if not line.startswith("#") else []
        if len(fields) == _FIELDS and all(is_met in ("*", want) for is_met, want in zip(fields, wanted, strict=False)):
            yield fields[-1]


def _split(line: str) -> Iterator[str]:
    """The fields of a line; a backslash takes its meaning from a colon and from a backslash."""
    field, letters = "", iter(line)
    for letter in letters:
        if letter == ":":
            yield field
            field = ""
        else:
            field += next(letters, "") if letter == "\\" else letter
    yield field

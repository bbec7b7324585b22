"""References to values outside the file: `${env:NAME}`, `${env:NAME:-default}`, `${file:path}`, `${exec:command}`.

A plain `${` is written `$${`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cdc.config import secret_commands
from cdc.config.secret_commands import NoSecretError
from cdc.core.settings import Finding, SettingPath
from cdc.secrets import SecretUnavailableError

# the escape first: its `${` begins no reference; an end that is missing is told, not passed over
REFERENCE = re.compile(r"(?P<escape>\$\$\{)|\$\{(?P<body>[^}]*)(?P<end>\})?")
FORMS = "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${exec:command}; a plain ${ is written $${"

LEFT_ALONE: frozenset[SettingPath] = frozenset(
    {("connect", "password_reference"), ("connect", "mask_secret_reference")}
)
"""Values whose references are not ours: Connect's own config providers resolve these."""


@dataclass
class Resolver:
    """Replaces references, and collects findings.

    `findings`: unresolved references. `used`: path → the reference, in a form that can be printed. `written`: path →
    the whole text there, with its references in that form. `asking`: path → how to ask again for a value that one
    reference to a file or a program gives. `warnings`: sentences for the user. None of them has a resolved value.
    """

    folder: Path
    environ: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)
    used: dict[SettingPath, str] = field(default_factory=dict)
    written: dict[SettingPath, str] = field(default_factory=dict)
    asking: dict[SettingPath, Callable[[], str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def resolve(self, value: Any, place: SettingPath = ()) -> Any:
        """Replace every reference in the strings of a value; unresolved ones stay as they are."""
        if isinstance(value, dict):
            return {key: self.resolve(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*place, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            if place in LEFT_ALONE:
                return value.replace("$${", "${")
            resolved = REFERENCE.sub(lambda match: self._replacement(match, place), value)
            if place in self.used:
                self.written[place] = REFERENCE.sub(_without_default, value)
            if (whole := REFERENCE.fullmatch(value)) and (whole["body"] or "").startswith(("file:", "exec:")):
                self.asking[place] = partial(self._ask_again, *whole["body"].split(":", 1))
            return resolved
        return value

    def _replacement(self, match: re.Match[str], place: SettingPath) -> str:
        if match["escape"]:
            return "${"
        kind, colon, rest = match["body"].partition(":")
        if not (match["end"] and colon and rest) or kind not in ("env", "file", "exec"):
            # without the rest: it may be a password that has a `${`
            shown = f"${{{kind}:…}}" if colon else "${…}"
            return self._finding(place, f"{shown} is not a reference: {FORMS}", match)
        name, dash, default = rest.partition(":-") if kind == "env" else (rest, "", "")
        # an argument of a program may be a secret, too
        self.used[place] = (
            f"${{{kind}:{name.strip().partition(' ')[0]} …}}" if kind == "exec" else f"${{{kind}:{name}}}"
        )
        value = self._variable(name, default if dash else None) if kind == "env" else self._read(kind, name)
        return value if isinstance(value, str) else self._finding(place, value.why, match)

    def _read(self, kind: str, name: str, *, again: bool = False) -> "str | _Nowhere":
        if kind == "file":
            return self._file(name)
        try:
            return (secret_commands.run if again else secret_commands.recall)(name, self.folder)
        except NoSecretError as error:
            return _Nowhere(f"${{exec:…}} gives no value: {error}")

    def _ask_again(self, kind: str, name: str) -> str:
        found = self._read(kind, name, again=True)
        if isinstance(found, _Nowhere):
            raise SecretUnavailableError(f"a login was refused, and its secret cannot be asked for again: {found.why}")
        return found

    def _finding(self, place: SettingPath, text: str, match: re.Match[str]) -> str:
        self.findings.append((place, text))
        return match[0]

    def _variable(self, name: str, default: str | None) -> "str | _Nowhere":
        value = self.environ.get(name)
        if default is not None:
            # like a shell's `:-`: an empty variable takes the default, too
            return value or default
        return _Nowhere(f"environment variable {name} is not set") if value is None else value

    def _file(self, name: str) -> "str | _Nowhere":
        path = self.folder / name
        try:
            text = path.read_text(encoding="utf-8")
            self._check_mode(path, name)
        except OSError as error:
            return _Nowhere(f"file {name} cannot be read: {(error.strerror or 'error').lower()}")
        except ValueError:
            return _Nowhere(f"file {name} is not UTF-8 text")
        # strip one line break only, which editors add: other blanks may belong to a password
        return text.removesuffix("\n").removesuffix("\r") or _Nowhere(f"file {name} is empty")

    def _check_mode(self, path: Path, name: str) -> None:
        warning = f"{name} can be read by others than its owner → chmod 600 {name}"
        if path.stat().st_mode & 0o077 and warning not in self.warnings:
            self.warnings.append(warning)


def _without_default(match: re.Match[str]) -> str:
    # a default may be a secret, too
    return match[0] if match["escape"] else f"${{{match['body'].partition(':-')[0]}}}"


@dataclass(frozen=True, slots=True)
class _Nowhere:
    """An unresolved reference, and the reason."""

    why: str


def escape(text: str) -> str:
    """Escape a text so that `resolve` returns it unchanged."""
    return text.replace("${", "$${")

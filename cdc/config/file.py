"""Reads and checks `cdc.yaml`, and writes it without its secrets."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from cdc.config.errors import InvalidSettingsError, Problem
from cdc.config.findings.table_findings import early_table_findings
from cdc.config.redaction import complete_names, redact
from cdc.config.references import Resolver
from cdc.config.settings import PipelineSettings
from cdc.config.spark_settings import SHOWN_TO_ALL, is_on_command_line
from cdc.config.validation import findings, plain_schema
from cdc.core.errors import ConfigurationError
from cdc.core.settings import Finding, SettingPath
from cdc.core.text.error_text import pick_first_line
from cdc.secrets import RenewableSecret

REFERENCE_SCHEMA = {"type": "string", "pattern": r"\$\{(env|file|exec):"}


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings of a file, and warnings for the user. `references`: path → the text there that has references."""

    settings: PipelineSettings
    warnings: tuple[str, ...] = ()
    references: Mapping[SettingPath, str] = field(default_factory=dict)


def load(path: Path, environ: Mapping[str, str] = os.environ) -> PipelineSettings:
    """Read the settings of the file at `path`; see `read`."""
    return read(path, environ).settings


def read(path: Path, environ: Mapping[str, str] = os.environ) -> LoadedSettings:
    """Read the settings of the file at `path`, with resolved references and complete names and paths, and warnings.

    Raises ConfigurationError if there is no such file, InvalidSettingsError with all problems if it is not valid.
    """
    return check_text(read_text(path), path, environ)


def check_text(text: str, path: Path, environ: Mapping[str, str] = os.environ) -> LoadedSettings:
    """Read the settings of a text that the file at `path` has, or is to have. Raises like `read`."""
    # references first: the models check the resolved values
    resolver = Resolver(path.parent, environ)
    checked = _validate(resolver, _values(text, str(path)))
    if isinstance(checked, PipelineSettings):
        settings = checked.resolve_paths(path.parent)
        _make_renewable(settings, resolver)
        return LoadedSettings(settings, tuple(resolver.warnings), complete_names(resolver.written))
    lines = parse_lines(text, str(path))
    raise InvalidSettingsError(
        [Problem(line_of(lines, place), format_path(place), problem, str(path)) for place, problem in checked]
    )


def _validate(resolver: Resolver, values: dict[Any, Any]) -> PipelineSettings | list[Finding]:
    try:
        resolved = resolver.resolve(values)
    except RecursionError:
        # the safe loader builds such a value without an error
        return [((), "an alias refers to itself")]
    found: list[Finding] = [(place, SHOWN_TO_ALL) for place in resolver.used if is_on_command_line(place)]
    try:
        settings = PipelineSettings.model_validate(resolved)
    except ValidationError as error:
        # an unresolved reference is reported once: its text is no value, so other problems there mean nothing
        unresolved = {place for place, _ in resolver.findings}
        all_found = findings(error, resolver.used) + early_table_findings(resolved)
        found += [finding for finding in all_found if finding[0] not in unresolved]
    # only with no finding of either sort is `settings` there
    return resolver.findings + found or settings


def _make_renewable(settings: PipelineSettings, resolver: Resolver) -> None:
    """Let secrets that came from a file or a program be asked for again."""
    for place, ask in resolver.asking.items():
        holder: Any = settings
        for step in place[:-1]:
            inside: Any = holder if isinstance(holder, dict | list) else vars(holder)
            holder = inside[step]
        found = getattr(holder, str(place[-1]), None)
        if isinstance(found, SecretStr) and not isinstance(found, RenewableSecret):
            # the settings are frozen for everybody else
            holder.__dict__[place[-1]] = RenewableSecret(found.get_secret_value(), ask)


def render(loaded: LoadedSettings) -> str:
    """Write the settings as YAML that `load` reads, with asterisks for secrets, and references as they are."""
    out = StringIO()
    yaml = YAML(typ="rt", pure=True)
    # ruamel folds longer lines, and nobody can copy a folded value
    yaml.width = 2**20
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(redact(loaded.settings.model_dump(mode="json", exclude_none=True), loaded.references), out)
    return out.getvalue()


def schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors: any value may be a reference."""
    properties = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "cdc.yaml"}
    return {**_or_reference(plain_schema()), **properties}


def read_text(path: Path) -> str:
    """The text of a file. Raises ConfigurationError when there is none, or it is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} does not exist", "run `cdc init`, or name another file with --config"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {(error.strerror or 'error').lower()}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text") from error


@lru_cache(maxsize=8)
def _parse(text: str) -> Any:
    """Parse the text to plain values, which nobody may change.

    Programs read the file with every `cdc.cut` and `cdc.wait`: of 40 ms for a cut, parsing was 37.
    """
    return YAML(typ="safe", pure=True).load(text)


def _values(text: str, file: str) -> dict[Any, Any]:
    with _report_syntax(file):
        values = _parse(text)
    if not values:
        raise ConfigurationError(f"{file} is empty", "run `cdc init --force` for one to start from")
    if not isinstance(values, dict):
        raise InvalidSettingsError([Problem(1, "", "not a block of keys", file)])
    return values


def parse_lines(text: str, file: str) -> CommentedMap:
    """Parse the text to values of ruamel's own types, which keep their lines."""
    with _report_syntax(file):
        found: CommentedMap = YAML(typ="rt", pure=True).load(text)
    return found


@contextmanager
def _report_syntax(file: str) -> Iterator[None]:
    try:
        yield
    except MarkedYAMLError as error:
        raise InvalidSettingsError([_syntax_problem(error, file)]) from None
    except YAMLError as error:
        raise InvalidSettingsError([Problem(1, "", f"not YAML: {pick_first_line(error)}", file)]) from None


def _syntax_problem(error: MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = pick_first_line(error.problem or error)
    # ruamel names both values of a key that is there twice, and either may be a secret
    if twice := re.match(r'found duplicate key "(.*?)" with value', problem):
        problem = f"key '{twice[1]}' is there twice"
    return Problem(line, "", f"column {column}: {problem}", file)


def format_path(place: SettingPath) -> str:
    """`source.tables[2]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def line_of(lines: CommentedMap, place: SettingPath) -> int:
    """The line of the path, or of the nearest block around it that is in the file."""
    line, node = 1, lines
    for step in place:
        if isinstance(node, CommentedMap) and step in node:
            # a merged key (`<<`) has no line of its own: use the block's
            line = node.lc.key(step)[0] + 1 if step in (node.lc.data or {}) else line
        elif isinstance(node, CommentedSeq) and isinstance(step, int):
            line = node.lc.item(step)[0] + 1
        else:
            break
        node = node[step]
    return line


def _or_reference(node: Any) -> Any:
    """Extend the schema: every number, boolean and text with a pattern may also be a reference."""
    if isinstance(node, list):
        return [_or_reference(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("integer", "number", "boolean") or {"enum", "pattern"} & node.keys():
        # they describe both options, so they stay outside
        about = {key: node[key] for key in ("title", "description", "default") if key in node}
        value = {key: item for key, item in node.items() if key not in about}
        return {**about, "anyOf": [value, REFERENCE_SCHEMA]}
    return {key: _or_reference(item) for key, item in node.items()}

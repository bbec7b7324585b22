"""`cdc init`: a commented `cdc.yaml` to start from."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from cdc.config.file import schema
from cdc.config.findings.table_findings import entry, table_finding
from cdc.config.references import escape
from cdc.config.settings import PIPELINE_NAME
from cdc.core.errors import ConfigurationError, PreconditionError, RefusedError

SCHEMA_FILE = Path(".cdc", "cdc.schema.json")
"""Where the JSON Schema lies, beside the configuration file."""

PLAIN = re.compile(r"[A-Za-z/][\w./:-]*")
"""Text that YAML reads as itself without quotes, unless it is one of RESERVED."""
RESERVED = {"true", "false", "null", "yes", "no", "on", "off"}


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """The values of the template. `password`, `password_reference` and `connect_url` may have references in them."""

    name: str = "shop"
    tables: tuple[str, ...] = ("public.orders",)
    host: str = "localhost"
    port: int = 5432
    dbname: str = "shop"
    user: str = "cdc"
    password: str = "${env:CDC_SOURCE_PASSWORD}"  # noqa: S105
    sslmode: str = "prefer"
    bootstrap: str = "localhost:9092"
    partitions: int = 3
    replication_factor: int = 1
    connect_url: str = "http://localhost:8083"
    password_reference: str | None = None
    source_host: str | None = None
    source_port: int | None = None
    lake: str = "lake"
    search_url: str = "http://localhost:9200"


def local_values(path: Path) -> TemplateValues:
    """The values of the services that `cdc up` started beside `path`; raises PreconditionError if it never did."""
    # here: these imports take a second, and only `cdc init --local` needs them
    from cdc.local.services import endpoints
    from cdc.local.state_dir import Home

    found = endpoints(Home((path.parent / SCHEMA_FILE.parent).absolute()))
    return TemplateValues(
        host=found.postgres_host,
        port=found.postgres_port,
        dbname=found.postgres_user,
        user=found.postgres_user,
        password=f"${{file:{_beside(path, found.postgres_password.file)}}}",
        bootstrap=found.kafka_bootstrap,
        connect_url=found.connect_login_by(f"${{file:{_beside(path, found.connect_password.file)}}}"),
        password_reference=found.postgres_password.reference,
        search_url=found.search_url,
    )


def _beside(path: Path, file: Path) -> str:
    """The path relative to the configuration's folder, if the file is below it: so the folder can be moved."""
    folder = path.parent.absolute()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def write(path: Path, values: TemplateValues, *, force: bool = False) -> None:
    """Write the configuration file, and its JSON Schema beside it for editors.

    Raises ConfigurationError for an invalid name or table, RefusedError if the file exists and `force` is not set,
    PreconditionError if it cannot be written.
    """
    text = f"# yaml-language-server: $schema={SCHEMA_FILE.as_posix()}\n{template(values)}"
    if path.exists() and not force:
        raise RefusedError(f"{path} exists", "--force overwrites it")
    schema_file = path.parent / SCHEMA_FILE
    try:
        schema_file.parent.mkdir(parents=True, exist_ok=True)
        schema_file.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
        # last: after a failure a second run needs no --force
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PreconditionError(f"{path} cannot be written: {(error.strerror or 'error').lower()}") from error


def template(values: TemplateValues) -> str:
    """Make the text of a configuration file with these values; raises ConfigurationError like `write`."""
    _check(values)
    text = files("cdc.config").joinpath("template.yaml").read_text(encoding="utf-8")
    parts = _parts(values)
    return re.sub("@([a-z_]+)@", lambda match: parts[match[1]], text)


def _parts(values: TemplateValues) -> dict[str, str]:
    names = ("name", "host", "dbname", "user", "sslmode", "bootstrap", "lake", "search_url")
    texts = {name: _scalar(escape(getattr(values, name))) for name in names}
    numbers = {name: str(getattr(values, name)) for name in ("port", "partitions", "replication_factor")}
    return {
        **texts,
        **numbers,
        # a reference: escaped, it would be a plain text
        "password": _scalar(values.password),
        "connect_url": _scalar(values.connect_url),
        "tables": table_lines(map(entry, values.tables)),
        "capture": _capture(values),
    }


def table_lines(entries: Iterable[str], indent: int = 4) -> str:
    """Write the items of `source.tables`, or of another list of tables, as YAML."""
    return "\n".join(f"{indent * ' '}- {_scalar(escape(entry))}" for entry in entries)


def _capture(values: TemplateValues) -> str:
    """Write the optional keys of `connect`."""
    keys = {
        "password_reference": values.password_reference and _scalar(values.password_reference),
        "source_host": values.source_host and _scalar(escape(values.source_host)),
        "source_port": values.source_port,
    }
    return "".join(f"  {key}: {value}\n" for key, value in keys.items() if value is not None)


def _check(values: TemplateValues) -> None:
    if not re.fullmatch(PIPELINE_NAME, values.name):
        raise ConfigurationError(
            f'"{values.name}" cannot be a pipeline\'s name', "up to 40 of a-z, 0-9 and _, a letter first"
        )
    for finding in filter(None, map(table_finding, values.tables)):
        raise ConfigurationError(finding, "name tables as schema.table")


def _scalar(text: str) -> str:
    """The text as YAML; JSON's strings are YAML's double-quoted ones."""
    # a colon at the end would make a key of it
    plain = PLAIN.fullmatch(text) and text.lower() not in RESERVED and not text.endswith(":")
    return text if plain else json.dumps(text, ensure_ascii=False)

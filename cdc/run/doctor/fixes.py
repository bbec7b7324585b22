"""What a database administrator has to run: statements, and settings of the server, told apart by how they are set."""

from dataclasses import dataclass

from psycopg import sql


@dataclass(frozen=True, slots=True)
class JointStatement:
    """A statement that may stand with others in one transaction."""

    text: str


@dataclass(frozen=True, slots=True)
class LoneStatement:
    """A statement that Postgres takes back with no transaction, such as the drop of a slot."""

    text: str


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """A setting of the whole server; `needs_restart`: a reload is not enough."""

    name: str
    value: str
    needs_restart: bool = False


@dataclass(frozen=True, slots=True)
class RoleRight:
    """The role may replicate: each provider gives that right in another way."""

    role: str


Fix = JointStatement | LoneStatement | ServerSetting | RoleRight


def quote(template: str, *names: str | tuple[str, ...]) -> str:
    """The template with an identifier for each of its `{}`: a name, or schema and name as a tuple."""
    parts = (sql.Identifier(name) if isinstance(name, str) else sql.Identifier(*name) for name in names)
    return sql.SQL(template).format(*parts).as_string()


def quote_text(text: str) -> str:
    return sql.Literal(text).as_string()

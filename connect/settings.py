"""The `source` and `connect` blocks: the Postgres to follow, and the Kafka Connect that captures it."""

import re
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator, model_validator

from cdc.connect.libpq_files import FileProblemError, read_password, read_service
from cdc.connect.masks import LEAST_SECRET, find_fingerprint
from cdc.connect.row_filters import find_filter_error
from cdc.connect.slot_budget import SlotBudget
from cdc.connect.source_login import find_wrong_logins
from cdc.connect.table_choices import CHOSEN_TYPES, Choices, ChosenType
from cdc.connect.tunable_properties import KAFKA_CLIENTS, find_refusal
from cdc.core.mask import MASKS, Mask, MaskKind
from cdc.core.schema_change import Policy
from cdc.core.selection import Selection
from cdc.core.settings import Settings, finding_error, findings_error
from cdc.core.table import TableName
from cdc.http_access import find_wrong_access
from cdc.secrets import RenewableSecret, SecretUnavailableError

SLOT_NAME = r"^[a-z0-9_]{0,63}$"

OF_ROLES: Final = "',="
"""Forbidden in a role's name: Debezium puts it between quotes, asyncpg into a SCRAM message, unescaped."""
OF_ADDRESSES: Final = "/?%+"
"""Characters that a database's name cannot have: Debezium puts it into a URL unescaped. Escaping it ourselves does not
help, since Debezium looks its slot up by the same text."""


CHOSEN_TYPE: Final = r"^(text|double|decimal\([0-9 ]+(,[0-9 ]+)?\))$"


def _check_chosen_type(text: str) -> str:
    try:
        return str(ChosenType.parse(text))
    except ValueError:
        raise finding_error((), f'"{text}" is not {CHOSEN_TYPES}') from None


ChosenTypeText = Annotated[str, Field(pattern=CHOSEN_TYPE), AfterValidator(_check_chosen_type)]


def _check_mask(text: str) -> str:
    try:
        Mask.parse(text)
    except ValueError:
        raise finding_error((), f'"{text}" is not {MASKS}') from None
    return text


def _check_filter(text: str) -> str:
    if why := find_filter_error(text):
        raise finding_error((), why)
    return text


# YAML's null is a word of this setting
MaskText = Annotated[
    str, BeforeValidator(lambda value: "null" if value is None else value), AfterValidator(_check_mask)
]
FilterText = Annotated[str, Field(min_length=1), AfterValidator(_check_filter)]


class SourceSettings(Settings):
    host: str = Field(min_length=1)
    """Host name, address, or folder of a socket; or several with commas between and one port, of which the primary is
    taken."""
    port: int = Field(default=5432, ge=1, le=65535)
    """Port of the source."""
    dbname: str = Field(min_length=1)
    """The database to follow."""
    user: str = Field(min_length=1)
    """A role with LOGIN and REPLICATION; `cdc bootstrap` names every right that it lacks."""
    password: SecretStr = SecretStr("")
    """By reference: `${env:NAME}`, `${file:path}` or `${exec:command}`. It may be left out where a `passfile` or a
    `service` has it, or where the server lets the certificate in."""
    passfile: str | None = None
    """libpq's password file, in which the password is looked up, and again where the server refuses it."""
    service: str | None = Field(default=None, min_length=1)
    """A service of libpq's service file; what stands in this block wins. All clients get its values."""
    service_file: str | None = None
    """The service file, where it is not the one that libpq takes."""
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    """As libpq's `sslmode`."""
    sslrootcert: str | None = None
    """File of the certificates to trust, for `verify-ca` and `verify-full`."""
    sslcert: str | None = None
    """File of the client's certificate, and of those between it and its authority, as PEM."""
    sslkey: str | None = None
    """File of the certificate's private key: PEM of PKCS #8 without a password, mode 0600. Connect's workers need all
    three files at the same paths, or others by `connect.overrides` (`database.sslkey` and its like)."""
    channel_binding: Literal["disable", "prefer", "require"] = "prefer"
    """Whether a login by password is bound to the TLS channel, as libpq's `channel_binding`."""
    target_session_attrs: Literal["primary", "read-write"] | None = None
    """Of several hosts, which one is taken: `primary` where it is left out. None of them may be a standby."""
    connect_timeout_seconds: int = Field(default=10, ge=1)
    """How long to wait for a connection."""
    standby_host: str | None = Field(default=None, min_length=1, pattern=r"^[^,\s]+$")
    """A standby of the source, from Postgres 16 on: the slot lives there, decoding and copies burden it alone. What is
    written goes to `host`, heartbeats too, which `cdc follow` writes then."""
    standby_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the standby, where it differs from `port`."""
    slot: str = Field(default="", pattern=SLOT_NAME)
    """The replication slot; `cdc_<pipeline>` where it is left out."""
    publication: str = Field(default="", max_length=63)
    """The publication; `cdc_<pipeline>` where it is left out."""
    tables: list[str] = Field(min_length=1)
    """Tables to follow, as `schema.table`; one without a key needs REPLICA IDENTITY FULL. A `*` stands for any
    characters, and a table that is made later and is named so joins by itself; `!schema.table` takes tables out."""
    keys: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """For tables without a key, by `schema.table`: columns that no two rows have alike, not even within a transaction
    (as a DEFERRABLE key allows): it would stop then. It needs REPLICA IDENTITY FULL, and is followed by all
    like one that has this key."""
    column_types: dict[str, Annotated[dict[str, ChosenTypeText], Field(min_length=1)]] = Field(default_factory=dict)
    """Other types for columns, by `schema.table` (or a pattern, as in `tables`) and column: `decimal(p,s)`, for a
    numeric without a precision, which is text else, and sums, compares and sorts as text; `double`, the nearest one,
    for numeric; `text`, what Postgres writes, for numeric (NaN), date, timestamp, timestamptz and interval (infinity).
    The column `*` stands for every numeric that is text else. A value that does not fit is held as a dead letter."""
    mask: dict[str, Annotated[dict[str, MaskText], Field(min_length=1)]] = Field(default_factory=dict)
    """What must not leave, by `schema.table` and column: `drop`, the column is in no follower; `null`; `hash`,
    HMAC-SHA256 with `mask_secret`, in hexadecimal; `last4`, stars and the last four characters of eight or more;
    `word:TEXT`, this text. What is null stays null."""
    mask_secret: SecretStr | None = Field(default=None, min_length=LEAST_SECRET)
    """The secret of `hash`, by reference: `${env:NAME}` or `${file:path}`; at least 16 characters. The same value has
    the same hash in every table. With another secret nothing goes on that has hashes."""
    where: dict[str, FilterText] = Field(default_factory=dict)
    """The rows to follow, by `schema.table`: a condition in SQL, as `CREATE PUBLICATION … WHERE` takes it, of columns
    of the replica identity. A row that an update moves in or out comes or goes."""
    on_schema_change: Policy = Policy.EVOLVE
    """The reaction to a change of a table's schema: `evolve`, follow every change; `additive`, follow new columns that
    are null in older rows; `stop`, follow that table no further."""
    on_schema_change_of: dict[str, Policy] = Field(default_factory=dict)
    """The same for some of the tables, by `schema.table`."""
    heartbeat_schema: str = Field(default="cdc", pattern=r"^[a-zA-Z0-9_-]{1,63}$")
    """The schema of the toolkit's own: tables (who follows, the beats that keep an idle slot moving, the shapes of the
    tables that are followed) and the functions that note those shapes."""
    heartbeat_seconds: int = Field(default=10, ge=1)
    """How often the connector writes a heartbeat. It moves idle slots, and after three a standstill is noticed."""
    slot_timeout_seconds: int = Field(default=60, ge=1)
    """How long to wait for open transactions to end when a slot is made."""
    slot_budget: SlotBudget = SlotBudget()

    @model_validator(mode="before")
    @classmethod
    def _takes_service(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(name := values.get("service"), str):
            return values
        try:
            found: dict[str, Any] = dict(read_service(name, values.get("service_file")))
        except FileProblemError as error:
            raise finding_error(("service",), str(error)) from None
        if "password" in found:
            ask = partial(_ask_service, name, values.get("service_file"))
            found["password"] = RenewableSecret(found["password"], ask)
        return {**found, **values}

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if self.passfile and not self.password.get_secret_value():
            ask = partial(_ask_passfile, self.passfile, self.host, self.port, self.dbname, self.user)
            try:
                # frozen for everybody else
                self.__dict__["password"] = RenewableSecret(ask(), ask)
            except SecretUnavailableError as error:
                raise finding_error(("passfile",), error.what) from None
        if found := list(find_wrong_logins(self.__dict__ | {"password": self.password.get_secret_value()})):
            raise findings_error(found)
        return self

    @field_validator("host")
    @classmethod
    def _has_whole_names(cls, host: str) -> str:
        # libpq would take an empty one for a local socket, asyncpg for nothing
        if any(not part or part != part.strip() for part in host.split(",")):
            raise finding_error((), "has an empty name or a blank in it; several hosts are written as pg1,pg2")
        return host

    @field_validator("dbname", "user")
    @classmethod
    def _can_be_captured(cls, name: str, info: ValidationInfo) -> str:
        forbidden, kind = (OF_ADDRESSES, "database") if info.field_name == "dbname" else (OF_ROLES, "role")
        if found := [character for character in forbidden if character in name]:
            raise finding_error((), f"has {' and '.join(found)} in it, which drivers do not take; rename the {kind}")
        return name

    @property
    def decoding(self) -> "SourceSettings":
        """The server where the slot lives, and which is copied from: the standby, or the source itself."""
        if self.standby_host is None:
            return self
        found = {"host": self.standby_host, "port": self.standby_port or self.port, "target_session_attrs": None}
        # without a second look: the secrets in it renew themselves for both
        return StandbySettings.model_construct(**{**self.__dict__, **found})

    @property
    def selection(self) -> Selection:
        """The tables to follow."""
        return Selection.of(self.tables)

    @property
    def choices(self) -> Choices:
        """The user's choices of keys, column types, masks and rows."""
        keys = {TableName.parse(name): tuple(columns) for name, columns in self.keys.items()}
        types = {
            name: {column: ChosenType.parse(chosen) for column, chosen in columns.items()}
            for name, columns in self.column_types.items()
        }
        masks = {
            TableName.parse(name): {column: self._read_mask(text) for column, text in columns.items()}
            for name, columns in self.mask.items()
        }
        wheres = {TableName.parse(name): condition for name, condition in self.where.items()}
        return Choices(keys, types, masks, wheres)

    @property
    def mask_key(self) -> bytes:
        """The secret of hashes, as HMAC takes it; empty if there is none."""
        return self.mask_secret.get_secret_value().encode() if self.mask_secret else b""

    def _read_mask(self, text: str) -> Mask:
        mask, secret = Mask.parse(text), self.mask_secret
        is_hash = mask.kind is MaskKind.HASH and secret is not None
        return replace(mask, fingerprint=find_fingerprint(secret.get_secret_value())) if is_hash and secret else mask

    def policy(self, table: TableName) -> Policy:
        """The policy for changes of this table's schema."""
        own = {TableName.parse(name): policy for name, policy in self.on_schema_change_of.items()}
        return own.get(table, self.on_schema_change)


class StandbySettings(SourceSettings):
    """The source as it is reached at its standby."""

    @property
    def decoding(self) -> SourceSettings:
        return self


def _ask_service(name: str, file: str | None) -> str:
    try:
        return read_service(name, file)["password"]
    except (FileProblemError, KeyError) as error:
        raise SecretUnavailableError(f"service {name} gives no password: {error}") from None


def _ask_passfile(file: str, host: str, port: int, dbname: str, user: str) -> str:
    try:
        return read_password(file, host, port, dbname, user)
    except FileProblemError as error:
        raise SecretUnavailableError(str(error)) from None


def is_host_supported(host: str) -> bool:
    """Can Debezium connect to this host? libpq also takes a socket's folder, several hosts, and IPv6 addresses."""
    return re.fullmatch("[A-Za-z0-9_.-]+", host) is not None


class CaptureSettings(Settings):
    url: str = Field(pattern=r"^https?://")
    """Kafka Connect's REST address."""
    username: str | None = None
    """For a login at the REST interface."""
    password: SecretStr | None = None
    """For a login at the REST interface, by reference: `${env:NAME}`, `${file:path}` or `${exec:command}`."""
    ca_file: str | None = None
    """File of the certificates that the REST interface is believed by, as PEM; the system's where it is left out."""
    certificate_file: str | None = None
    """File of the client's certificate, as PEM, where the REST interface asks for one."""
    key_file: str | None = None
    """File of the certificate's private key, as PEM without a password."""
    connector: str = Field(default="", pattern=r"^[^/?#%\s]*$")
    """The connector's name; `cdc-<pipeline>` where it is left out."""
    source_host: str | None = None
    """The source's host as Connect's workers reach it, where it differs from `source.host`. It is required where that
    is none that Debezium takes: the folder of a socket, several hosts, an address of IPv6."""
    source_port: int | None = Field(default=None, ge=1, le=65535)
    """The source's port as Connect's workers reach it, where it differs from `source.port`."""
    password_reference: str | None = None
    """A reference in place of the password in the connector's configuration, such as `${file:/secrets/pg:password}`
    or `${env:PG_PASSWORD}`: resolved by Connect's own config providers. Without it, the password itself is sent."""
    mask_secret_reference: str | None = None
    """The same for `source.mask_secret`."""
    restarts: int = Field(default=10, ge=0)
    """How often `cdc follow` starts a task again that has failed, with pauses from 5 s to 5 min, unless source or Kafka
    have something against it. One that runs for ten minutes has all of them again; 0: never."""
    max_batch_size: int = Field(default=20_000, ge=1)
    """Debezium's `max.batch.size`: events per batch."""
    max_queue_size: int = Field(default=100_000, ge=2)
    """Debezium's `max.queue.size`: events in memory; more than `max_batch_size`."""
    max_queue_bytes: int = Field(default=128 * 1024 * 1024, ge=1)
    """Debezium's `max.queue.size.in.bytes`."""
    overrides: dict[str, str] = Field(default_factory=dict)
    """Further settings of the connector, as Debezium names them: sessions, memory, retries, TLS, the producer's speed
    (`connect/README.md` lists them); nothing that decides what is sent, or in which order."""

    @field_validator("overrides")
    @classmethod
    def _nothing_decided(cls, overrides: dict[str, str]) -> dict[str, str]:
        refusals = {name: find_refusal(name) for name in sorted(overrides)}
        if found := [((name,), why) for name, why in refusals.items() if why]:
            raise findings_error(found)
        listeners = {client: overrides.get(f"{client}.override.bootstrap.servers") for client in KAFKA_CLIENTS}
        if len({*listeners.values()}) > 1:
            told = "takes one address of brokers for all of " + ", ".join(f"{name}.override." for name in listeners)
            raise finding_error((), told)
        return overrides

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if found := list(find_wrong_access(self.__dict__)):
            raise findings_error(found)
        return self

    @model_validator(mode="after")
    def _batch_fits_into_queue(self) -> Self:
        if self.max_queue_size <= self.max_batch_size:
            raise ValueError("max_queue_size has to be larger than max_batch_size")
        return self

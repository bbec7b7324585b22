"""What the source says of itself: read once, in one session, for all checks about server, role and capture."""

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from psycopg import Connection

from cdc.connect.settings import SourceSettings
from cdc.connect.source import publication, registration
from cdc.connect.source.access.connection import read_clock, try_replication
from cdc.connect.source.publication import WrongParts
from cdc.connect.source.published_parts import Parts, find_parts
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots.oldest_transaction import OldestTransaction
from cdc.connect.source.slots.slot_health import look_at_source
from cdc.core.errors import CdcError, PreconditionError
from cdc.core.table import TableName
from cdc.postgres.values import read_value
from cdc.run.doctor.asking import SilentPartError
from cdc.run.doctor.facts.access import Access, SourceRoute
from cdc.run.doctor.facts.triggers import TriggerFacts, read_triggers
from cdc.run.pipeline import Pipeline
from cdc.run.tables.schema_check import find_changed_choices

OLDEST_VERSION: Final = 150_000
"""The first that has row filters and lists of columns, which a publication of ours must not have."""
Row = Mapping[str, Any]
"""A row of a system view, by the columns that this version has."""

_OF_SERVER: Final = """
SELECT current_setting('server_version_num')::int AS version, current_database()::text AS database,
       (SELECT jsonb_object_agg(name, setting) FROM pg_settings) AS settings,
       (SELECT jsonb_agg(rolname) FROM pg_roles) AS roles,
       (SELECT jsonb_agg(nspname) FROM pg_namespace) AS schemas,
       (SELECT jsonb_agg(DISTINCT proname) FROM pg_proc WHERE proname = 'aurora_version') AS functions,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions,
       (SELECT count(*) FROM pg_stat_replication) AS senders,
       (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS has_tls,
       pg_postmaster_start_time() AS started"""
_OF_ROLE: Final = """
SELECT to_jsonb(r) || jsonb_build_object(
         'may_create', has_database_privilege(current_database(), 'CREATE'),
         'may_see_others', r.rolsuper OR pg_has_role('pg_read_all_stats', 'USAGE'),
         'member_of', (SELECT COALESCE(jsonb_agg(g.rolname), '[]') FROM pg_roles g
                        WHERE g.rolname <> r.rolname AND pg_has_role(g.oid, 'MEMBER') AND NOT r.rolsuper),
         'sessions', (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user),
         'expires_days', CASE WHEN isfinite(r.rolvaliduntil)
                               THEN extract(epoch FROM r.rolvaliduntil - now()) / 86400 END)
  FROM pg_roles r WHERE r.rolname = current_user"""
OF_SLOTS: Final = """
SELECT to_jsonb(s) || jsonb_build_object(
         'retained', pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                     ELSE pg_current_wal_lsn() END, s.restart_lsn),
         'xmin_age', age(s.xmin), 'catalog_xmin_age', age(s.catalog_xmin),
         'idle_seconds', extract(epoch FROM now() - (to_jsonb(s) ->> 'inactive_since')::timestamptz),
         'spilled', (SELECT spill_bytes FROM pg_stat_replication_slots t WHERE t.slot_name = s.slot_name))
  FROM pg_replication_slots s"""
_OF_STANDBYS: Final = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical'"
_PREPARED: Final = """
SELECT to_jsonb(p) || jsonb_build_object('age', extract(epoch FROM now() - prepared)) FROM pg_prepared_xacts p"""
_OLD: Final = """
SELECT jsonb_build_object('pid', pid, 'age', extract(epoch FROM now() - xact_start), 'application', application_name,
         'user', usename, 'database', datname, 'query_age', extract(epoch FROM now() - query_start))
  FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
   AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)"""
OF_READERS: Final = """
SELECT jsonb_build_object('pid', pid, 'user', usename, 'application', application_name, 'xmin_age', age(backend_xmin))
  FROM pg_stat_replication"""
_PUBLICATION: Final = """
SELECT to_jsonb(p) || jsonb_build_object('owner', pg_get_userbyid(pubowner), 'owned', pg_has_role(pubowner, 'USAGE'))
  FROM pg_publication p WHERE pubname = %s"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Of the server and the session: settings as pg_settings has them, names by which a provider is told."""

    version: int
    database: str
    settings: Mapping[str, str]
    roles: frozenset[str] = frozenset()
    schemas: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    sessions: int = 0
    senders: int = 0
    has_tls: bool = False
    started: datetime | None = None
    other_started: datetime | None = None
    round_trip: float = 0.0
    clock_skew: float = 0.0

    def number(self, setting: str) -> int | None:
        """A numeric setting in the unit of pg_settings; None where this version has no such one."""
        found = self.settings.get(setting)
        return None if found is None else int(float(found))


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """Of our publication: its row, None if it is not there; its tables; what is wrong with their rows and columns.

    `parts`: what the settings let it send of tables of which it does not send all.
    """

    row: Row | None = None
    tables: frozenset[TableName] = frozenset()
    partial: WrongParts | None = None
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """All that the source says. `schema_error`: why the role may not use the toolkit's tables. `oldest`: the oldest
    transaction that has written, with `read_at` by the source's clock."""

    server: ServerFacts
    role: Row
    route: SourceRoute
    slots: Sequence[Row] = ()
    standbys: int = 0
    prepared: Sequence[Row] = ()
    transactions: Sequence[Row] = ()
    publication: PublicationFacts = field(default_factory=PublicationFacts)
    triggers: TriggerFacts = field(default_factory=TriggerFacts)
    registered: Registration | None = None
    schema_error: CdcError | None = None
    replication_error: CdcError | None = None
    readers: Sequence[Row] = ()
    oldest: OldestTransaction | None = None
    read_at: float = 0.0


def describe_old(version: int) -> PreconditionError:
    """Make the error for a server of this version, as server_version_num has it."""
    remedy = f"upgrade it to {OLDEST_VERSION // 10_000} or newer"
    return PreconditionError(f"the source is Postgres {version // 10_000}", remedy)


def read_source(pipeline: Pipeline, access: Access) -> SourceFacts:
    """Ask the source. Raises CdcError where it does not answer."""
    source = pipeline.settings.source
    other_started = _read_start(access)
    with access.open() as connection:
        if (version := connection.info.server_version) < OLDEST_VERSION:
            # much of what is asked below is not there
            raise SilentPartError("source.version", "server", describe_old(version))
        server = _read_server(connection, other_started)
        role = read_rows(connection, _OF_ROLE)[0]
        registered, schema_error = _read_registration(connection, pipeline)
        return SourceFacts(
            server,
            role,
            access.route,
            read_rows(connection, OF_SLOTS),
            int(read_value(connection, _OF_STANDBYS)),
            read_rows(connection, _PREPARED),
            read_rows(connection, _OLD),
            _read_publication(connection, source, _list_changed(pipeline)),
            read_triggers(connection, source),
            registered,
            schema_error,
            try_replication(access.source) if may_replicate(role) else None,
            read_rows(connection, OF_READERS),
            (look := look_at_source(connection, source)).oldest,
            look.now,
        )


def may_replicate(role: Row) -> bool:
    """Has the role the right to replicate, by itself or by that of its provider?"""
    return bool(role["rolreplication"] or role["rolsuper"] or "rds_replication" in role["member_of"])


def _read_start(access: Access) -> datetime:
    """When the server behind another session started: behind a balancer it is another one."""
    with access.open() as connection:
        return read_value(connection, "SELECT pg_postmaster_start_time()")  # type: ignore[no-any-return]


def _read_server(connection: Connection, other_started: datetime) -> ServerFacts:
    row = connection.execute(_OF_SERVER).fetchone()
    assert row is not None
    version, database, settings, roles, schemas, functions, sessions, senders, has_tls, started = row
    before, clock = time.time(), read_clock(connection)
    after = time.time()
    trip = after - before
    return ServerFacts(
        version,
        database,
        settings,
        frozenset(roles),
        frozenset(schemas),
        frozenset(functions or ()),
        sessions,
        senders,
        bool(has_tls),
        started,
        other_started,
        trip,
        clock - (before + trip / 2),
    )


def read_rows(connection: Connection, query: str, *values: object) -> list[Row]:
    """Read the rows of a query that has one column, of JSON."""
    return [row[0] for row in connection.execute(query.encode(), values).fetchall()]


def _read_registration(connection: Connection, pipeline: Pipeline) -> tuple[Registration | None, CdcError | None]:
    source = pipeline.settings.source
    try:
        registration.check_may_prepare(connection, source)
        return registration.read_registration(connection, source, pipeline.name), None
    except PreconditionError as error:
        return None, error


def _list_changed(pipeline: Pipeline) -> Set[TableName]:
    """Tables that a bootstrap publishes anew; none where the lake does not answer, which another check tells."""
    try:
        return find_changed_choices(pipeline).keys()
    except CdcError:
        return frozenset()


def _read_publication(connection: Connection, source: SourceSettings, anew: Set[TableName]) -> PublicationFacts:
    name = source.publication
    rows = read_rows(connection, _PUBLICATION, name)
    parts = find_parts(connection, source)
    if not rows:
        return PublicationFacts(parts=parts)
    tables = publication.read_publication(connection, name) or set()
    return PublicationFacts(
        rows[0], frozenset(tables), publication.find_partial(connection, source, anew, parts), parts
    )

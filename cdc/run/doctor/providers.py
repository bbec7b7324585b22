"""Who runs the source, told by facts of the server, and how each of them sets what an administrator has to set.

From the providers' own pages on logical replication: Amazon RDS and Aurora, Cloud SQL, Azure Flexible Server, Supabase,
Neon, Render, Fly, Heroku.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from psycopg import sql

from cdc.run.doctor.facts.source import ServerFacts


@dataclass(frozen=True, slots=True)
class Provider:
    """One who runs Postgres.

    `where`: how a setting of the server is set; None where ALTER SYSTEM may. `settings`: those with another name there.
    `replication`: the statement that lets `{}` replicate; `remark`: what else has to be known.
    """

    name: str
    where: str | None = None
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    replication: str = "ALTER ROLE {} REPLICATION"
    remark: str = ""
    has_event_triggers: bool = True

    def set_setting(self, name: str, value: str) -> str:
        """How this setting gets this value: a statement, or words for who has no ALTER SYSTEM."""
        name, value = self.settings.get(name, (name, value))
        if self.where is None:
            alter = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
            return alter.as_string()
        return f"{self.where}: {name} = {value}"

    def allow_replication(self, role: str) -> str:
        return sql.SQL(self.replication).format(sql.Identifier(role)).as_string()


_RDS_LOGICAL: Final = {"wal_level": ("rds.logical_replication", "1")}
_RDS_ROLE: Final = "GRANT rds_replication TO {}"
_RDS_REMARK: Final = (
    "before an upgrade to another major version, drop the event triggers, and let `cdc bootstrap` make them again;"
    " slots live through it from Postgres 17 on"
)
OWN: Final = Provider("a server of your own")
RDS: Final = Provider("Amazon RDS", "in the DB parameter group", _RDS_LOGICAL, _RDS_ROLE, _RDS_REMARK)
AURORA: Final = Provider("Amazon Aurora", "in the DB cluster parameter group", _RDS_LOGICAL, _RDS_ROLE, _RDS_REMARK)
CLOUD_SQL: Final = Provider(
    "Cloud SQL", "as a flag of the instance", {"wal_level": ("cloudsql.logical_decoding", "on")}
)
AZURE: Final = Provider("Azure Database for PostgreSQL", "in the server parameters")
SUPABASE: Final = Provider(
    "Supabase",
    "by `supabase postgres-config update`",
    remark="name the direct connection, not the pooler: it has IPv6 only, unless the project has the IPv4 add-on;"
    " event triggers do not fire for ALTER PUBLICATION there",
)
NEON: Final = Provider(
    "Neon",
    "in the project's settings",
    remark="a role that SQL has made may not replicate: take neondb_owner, or make one in the console; a slot that is"
    " not read for about 40 hours is removed, and so are all slots when a branch is restored",
)
_NO_TRIGGERS: Final = "there are no event triggers: let migrations call the hook"
RENDER: Final = Provider("Render", "by a request to support", remark=_NO_TRIGGERS, has_event_triggers=False)
FLY: Final = Provider("Fly", "by `fly postgres config update`", remark=_NO_TRIGGERS, has_event_triggers=False)
HEROKU: Final = Provider("Heroku Postgres", "by a request to support", remark=_NO_TRIGGERS, has_event_triggers=False)
PROVIDERS: Final = (OWN, RDS, AURORA, CLOUD_SQL, AZURE, SUPABASE, NEON, RENDER, FLY, HEROKU)


def tell_provider(server: ServerFacts, host: str) -> Provider:
    """Tell the provider by settings, roles and schemas that only its servers have; of some, by the host's name."""
    blocks = {name.partition(".")[0] for name in server.settings if "." in name}
    signs = (
        (AURORA, "aurora_version" in server.functions),
        (RDS, "rds" in blocks or "rds_superuser" in server.roles),
        (CLOUD_SQL, "cloudsql" in blocks or "cloudsqlsuperuser" in server.roles),
        (AZURE, "azure" in blocks or "azure_pg_admin" in server.roles),
        (SUPABASE, "supabase_admin" in server.roles),
        (NEON, "neon" in blocks or "neon_superuser" in server.roles),
        (HEROKU, "heroku_ext" in server.schemas),
        (FLY, "flypgadmin" in server.roles or host.endswith((".flycast", ".fly.dev", ".flympg.net"))),
        (RENDER, host.startswith("dpg-") or host.endswith(".render.com")),
    )
    return next((provider for provider, is_it in signs if is_it), OWN)

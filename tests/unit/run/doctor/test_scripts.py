"""Scripts for the source's administrator, for the provider that facts of the server tell."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from cdc.core.table import TableName
from cdc.run.doctor.check import Fault, Severity
from cdc.run.doctor.dba_script import NOTHING, make_dba_script
from cdc.run.doctor.fixes import JointStatement, LoneStatement, RoleRight, ServerSetting
from cdc.run.doctor.providers import OWN, PROVIDERS, Provider, tell_provider
from cdc.run.doctor.role_script import make_role_script
from cdc.run.doctor.runner import Finding
from tests.unit.run.doctor.facts import SERVER, find, make_parts, make_settings, with_server, with_setting

SIGNS: dict[str, tuple[dict[str, Any], str]] = {
    "a server of your own": ({}, "db"),
    "Amazon RDS": ({"settings": {"rds.extensions": "x"}}, "db"),
    "Amazon Aurora": ({"settings": {"rds.extensions": "x"}, "functions": frozenset({"aurora_version"})}, "db"),
    "Cloud SQL": ({"settings": {"cloudsql.iam_authentication": "on"}}, "db"),
    "Azure Database for PostgreSQL": ({"settings": {"azure.extensions": "x"}}, "db"),
    "Supabase": ({"roles": frozenset({"supabase_admin", "postgres"})}, "db"),
    "Neon": ({"roles": frozenset({"neon_superuser"})}, "db"),
    "Render": ({}, "dpg-abc-a.oregon-postgres.render.com"),
    "Fly": ({"roles": frozenset({"flypgadmin"})}, "db"),
    "Heroku Postgres": ({"schemas": frozenset({"heroku_ext"})}, "db"),
}
LEVEL = {
    "a server of your own": "ALTER SYSTEM SET \"wal_level\" = 'logical';",
    "Amazon RDS": "-- in the DB parameter group: rds.logical_replication = 1",
    "Amazon Aurora": "-- in the DB cluster parameter group: rds.logical_replication = 1",
    "Cloud SQL": "-- as a flag of the instance: cloudsql.logical_decoding = on",
    "Azure Database for PostgreSQL": "-- in the server parameters: wal_level = logical",
}
BY_NAME = {provider.name: provider for provider in PROVIDERS}


@pytest.mark.parametrize("name", SIGNS)
def test_a_provider_is_told_by_facts_of_its_server(name: str) -> None:
    changes, host = SIGNS[name]
    assert tell_provider(with_server(**changes).server, host).name == name


def test_every_provider_is_told_by_something() -> None:
    assert SIGNS.keys() == BY_NAME.keys()
    assert tell_provider(SERVER, "db") is OWN


@pytest.mark.parametrize("name", LEVEL)
def test_a_setting_is_set_as_the_provider_has_it(name: str, tmp_path: Path) -> None:
    found = find(make_parts(make_settings(tmp_path), source=with_setting("wal_level", "replica")), "postgres.wal_level")
    lines = [*make_dba_script(found, BY_NAME[name])]
    assert LEVEL[name] in lines
    assert lines[-1] == "-- then restart the server"


def finding(*fixes: JointStatement | LoneStatement | RoleRight | ServerSetting) -> Finding:
    return Finding("a.check", Severity.ERROR, "why", Fault("it", "what", "remedy", fixes))


def test_what_can_stand_in_one_transaction_does_and_each_statement_once() -> None:
    found = [
        finding(LoneStatement("SELECT pg_drop_replication_slot('x')"), JointStatement("GRANT a TO b")),
        finding(RoleRight("odd name"), JointStatement("GRANT a TO b;"), ServerSetting("fsync", "on")),
    ]
    assert [*make_dba_script(found, OWN)] == [
        "-- for a server of your own",
        "ALTER SYSTEM SET \"fsync\" = 'on';",
        "SELECT pg_reload_conf();",
        "BEGIN;",
        "GRANT a TO b;  -- a.check",
        'ALTER ROLE "odd name" REPLICATION;  -- a.check',
        "COMMIT;",
        "SELECT pg_drop_replication_slot('x');  -- a.check",
    ]
    assert [*make_dba_script([finding()], OWN)] == [NOTHING]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: str(provider.name))
def test_the_script_of_a_role_is_one_transaction_without_a_password(tmp_path: Path, provider: Provider) -> None:
    settings = make_settings(tmp_path, source={"password": "canary"})
    tables = [TableName("public", "t"), TableName("odd schema", 'a"b')]
    triggers = provider.has_event_triggers
    lines = [*make_role_script(settings, tables, provider, "few rights", triggers=triggers)]
    of_standby = make_settings(tmp_path, source={"standby_host": "s"})
    more = {*make_role_script(of_standby, tables, provider, "few rights", triggers=triggers)} - {*lines}
    assert more == {'GRANT EXECUTE ON FUNCTION pg_catalog.pg_log_standby_snapshot() TO "few rights";'}
    text = "\n".join(lines)
    assert "canary" not in text
    assert (text.count("BEGIN;"), text.count("COMMIT;")) == (1, 1)
    odd = sql.Identifier("odd schema", 'a"b').as_string()
    assert f'GRANT SELECT ON {odd} TO "few rights"' in text
    assert ("CREATE EVENT TRIGGER" in text) is triggers
    assert provider.allow_replication("few rights") in text

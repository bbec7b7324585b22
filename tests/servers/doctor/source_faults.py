"""Faults of the source, its role, publication, slot and event triggers."""

from pydantic import SecretStr

from cdc.cli.output import say
from cdc.connect.source import catalog, schema_history
from cdc.connect.source.access import replication
from cdc.connect.source.access.connection import connect, open_connection
from cdc.connect.source.registration import Registration, register
from cdc.run.copy.capture_setup import prepare_capture
from cdc.run.pipeline import Pipeline as OpenedPipeline
from tests.servers.doctor.site import Planted, Site, Step, each, put_back, sql_of, with_setting
from tests.support.parts.ports import free_port


def weak(site: Site) -> str:
    return f"weak_{site.settings.pipeline.name}"


def as_weak(site: Site) -> None:
    """Let the pipeline's role be one that was given nothing."""
    site.change("source", user=weak(site))


def alter_weak(change: str) -> Step:
    return lambda site: site.run(f"ALTER ROLE {weak(site)} {change}")


def let_weak_read(site: Site) -> None:
    role = weak(site)
    site.run(f"GRANT USAGE ON SCHEMA public TO {role}", f"GRANT SELECT ON t TO {role}")


def let_weak_see(site: Site) -> None:
    role = weak(site)
    site.run(f"GRANT USAGE ON SCHEMA cdc TO {role}", f"GRANT ALL ON ALL TABLES IN SCHEMA cdc TO {role}")


def bootstrap_anew(site: Site) -> None:
    """What `cdc bootstrap` does before its copies."""
    opened = OpenedPipeline(site.settings)
    with opened.open_source() as connection:
        tables = catalog.read_tables(connection, list(site.settings.selection.names))
        prepare_capture(opened, connection, tables, say, is_ours=True)


def forget(site: Site) -> None:
    site.run("DELETE FROM cdc.pipeline")


def forget_all(site: Site) -> None:
    """The lake has no copy either."""
    forget(site)
    site.known["position"] = None


def remember(site: Site) -> None:
    source = site.settings.source
    names = Registration(site.settings.pipeline.name, source.slot, source.publication, site.settings.log.prefix)
    with open_connection(source) as connection:
        register(connection, source, names)


def publish(change: str) -> Step:
    return lambda site: site.run(f"ALTER PUBLICATION {site.settings.source.publication} {change}")


def make_slot(name: str) -> Step:
    return sql_of(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")


def make_physical(name: str) -> Step:
    return sql_of(f"SELECT pg_create_physical_replication_slot('{name}')")


def drop_slot(name: str) -> Step:
    return sql_of(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}'")


def keep_on_standbys(site: Site) -> None:
    connection = connect(site.settings.source, replication="database")
    connection.pgconn.exec_(b"ALTER_REPLICATION_SLOT doctor_spare (FAILOVER)")
    assert replication.run_command(connection.pgconn, b"IDENTIFY_SYSTEM")
    connection.close()


def make_undecodable(site: Site) -> None:
    make_slot("doctor_late")(site)
    site.run("INSERT INTO t VALUES (77, 1)", "CREATE PUBLICATION doctor_late FOR TABLE t")
    site.change("source", slot="doctor_late", publication="doctor_late")


def drop_triggers(site: Site) -> None:
    for name in schema_history.TRIGGERS:
        site.run(f"DROP EVENT TRIGGER cdc_{name}")


def make_triggers(site: Site) -> None:
    site.run(*(statement.as_string() for statement in schema_history.make_trigger_sql(site.settings.source)))


def give_away(site: Site) -> None:
    # at the end of this command the trigger would fail already
    role = f"owner_of_{site.settings.pipeline.name}"
    site.run("SET event_triggers = off", f"CREATE ROLE {role}", f"ALTER FUNCTION cdc.note_shapes() OWNER TO {role}")
    site.run("RESET event_triggers")


def take_back(site: Site) -> None:
    role = f"owner_of_{site.settings.pipeline.name}"
    site.run("SET event_triggers = off", "ALTER FUNCTION cdc.note_shapes() OWNER TO postgres")
    site.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}", "RESET event_triggers")


FRESH = with_setting("source", tables=["public.fresh"])
SOURCE = (
    Planted("source.dns", with_setting("source", host="nowhere.invalid"), "correct source.host", put_back),
    Planted("source.tcp", lambda site: site.change("source", port=free_port()), "source.port", put_back),
    Planted("source.tls", with_setting("source", sslmode="require"), "set source.sslmode to prefer", put_back),
    Planted("source.login", with_setting("source", password=SecretStr("no")), "correct source.password", put_back),
    Planted("source.registered", forget, "`cdc recapture`", remember),
    Planted("source.database", with_setting("source", dbname="nowhere"), "correct source.dbname", put_back),
)
ROLE = (
    Planted("role.replication", as_weak, "REPLICATION"),
    Planted("role.reads_tables", as_weak, "GRANT SELECT ON"),
    Planted("role.own_schema", as_weak, "GRANT USAGE ON SCHEMA"),
    Planted("role.expires", each(as_weak, alter_weak("VALID UNTIL 'tomorrow'")), "VALID UNTIL 'infinity'"),
    Planted("role.sessions", each(as_weak, alter_weak("CONNECTION LIMIT 9")), "CONNECTION LIMIT -1"),
    Planted("role.sees_sessions", as_weak, "GRANT pg_monitor"),
    Planted(
        "role.row_security",
        each(as_weak, let_weak_read, sql_of("ALTER TABLE t ENABLE ROW LEVEL SECURITY")),
        "BYPASSRLS",
        after=sql_of("ALTER TABLE t DISABLE ROW LEVEL SECURITY"),
    ),
)
PUBLICATION = (
    Planted("publication.ours", forget_all, "choose another source.publication", remember),
    Planted("publication.operations", publish("SET (publish = 'insert')"), "ALTER PUBLICATION"),
    Planted(
        "publication.operations",
        publish("SET (publish_via_partition_root = false)"),
        "publish_via_partition_root = true",
    ),
    Planted("publication.whole_tables", publish("SET TABLE t WHERE (id > 1), cdc.heartbeat, cdc.shapes"), "DROP TABLE"),
    Planted("publication.covers", publish("DROP TABLE t"), "`cdc bootstrap` adds", bootstrap_anew),
    Planted(
        "publication.may_alter",
        each(
            as_weak,
            let_weak_see,
            sql_of("CREATE TABLE fresh (id int PRIMARY KEY)"),
            with_setting("source", tables=["public.fresh"]),
        ),
        "run as owner: ALTER PUBLICATION",
        after=sql_of("DROP TABLE fresh"),
    ),
    Planted(
        "publication.there",
        with_setting("source", publication="doctor_lost"),
        "`cdc recapture`",
        put_back,
    ),
    Planted(
        "publication.all_tables",
        each(sql_of("CREATE PUBLICATION doctor_all FOR ALL TABLES"), with_setting("source", publication="doctor_all")),
        "leave it",
        put_back,
        after=sql_of("DROP PUBLICATION doctor_all"),
    ),
)
SLOT = (
    Planted("slot.ours", forget_all, "choose another source.slot", remember),
    Planted("slot.there", with_setting("source", slot="doctor_gone"), "`cdc recapture`", put_back),
    Planted(
        "slot.plugin",
        each(
            sql_of("SELECT pg_create_physical_replication_slot('doctor_bytes')"),
            with_setting("source", slot="doctor_bytes"),
        ),
        "choose another source.slot",
        put_back,
        after=drop_slot("doctor_bytes"),
    ),
    Planted("slot.abandoned", make_slot("doctor_left"), "drop it"),
    Planted(
        "slot.failover",
        each(
            make_slot("doctor_spare"),
            make_physical("doctor_standby"),
            with_setting("source", slot="doctor_spare"),
        ),
        "ALTER_REPLICATION_SLOT doctor_spare (FAILOVER)",
        keep_on_standbys,
        after=each(drop_slot("doctor_spare"), drop_slot("doctor_standby")),
    ),
    Planted(
        "slot.decodable",
        make_undecodable,
        "`cdc recapture`",
        each(drop_slot("doctor_late"), make_slot("doctor_late")),
        after=each(drop_slot("doctor_late"), sql_of("DROP PUBLICATION doctor_late")),
    ),
)
TRIGGERS = (
    Planted("triggers.whole", sql_of("ALTER EVENT TRIGGER cdc_note_shapes DISABLE"), "`cdc bootstrap` makes them anew"),
    Planted("triggers.whole", drop_triggers, "`cdc bootstrap` makes them anew", bootstrap_anew),
    Planted("triggers.guarded", sql_of("ALTER FUNCTION cdc.note_shapes() RESET ALL"), "SET search_path"),
    Planted("triggers.owner", give_away, "GRANT", after=take_back),
    Planted(
        "triggers.allowed",
        each(as_weak, let_weak_see, drop_triggers),
        "SELECT cdc.shapes_now()",
        make_triggers,
        what="may make none",
    ),
    Planted(
        "triggers.hook",
        each(as_weak, let_weak_see, drop_triggers, sql_of("DROP FUNCTION cdc.shapes_now()")),
        "`cdc bootstrap` makes it",
        after=make_triggers,
    ),
)

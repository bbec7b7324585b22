"""Faults of tables."""

from cdc.connect.source.access.connection import connect
from tests.servers.doctor.site import Planted, Site, Step, each, put_back, sql_of, with_setting

BAD = with_setting("source", tables=["public.bad"])
PATTERN = with_setting("source", tables=["public.t", "public.b*"])
ADD_KEY = sql_of("ALTER TABLE bad ADD PRIMARY KEY (id)")
DROP = sql_of("DROP TABLE IF EXISTS bad CASCADE")


def bad(columns: str, *further: str) -> Step:
    """A table of these columns is followed."""
    return each(sql_of(f"CREATE TABLE bad ({columns})", *further), BAD)


def refused(columns: str, *further: str, remedy: str, what: str = "", mend: Step | None = None) -> Planted:
    return Planted("tables.followable", bad(columns, *further), remedy, mend, what, DROP)


def lock(site: Site) -> None:
    session = connect(site.settings.source, autocommit=False)
    session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
    site.known["session"] = session


def unlock(site: Site) -> None:
    site.known["session"].close()


TABLES = (
    Planted("tables.followable", with_setting("source", tables=["public.gone"]), "correct source.tables", put_back),
    refused("id int", remedy="add a primary key", what="no primary key", mend=ADD_KEY),
    refused(
        "id int PRIMARY KEY DEFERRABLE",
        remedy="add a primary key",
        what="deferrable",
        mend=each(sql_of("ALTER TABLE bad DROP CONSTRAINT bad_pkey"), sql_of("ALTER TABLE bad ADD PRIMARY KEY (id)")),
    ),
    refused("id int PRIMARY KEY", "ALTER TABLE bad SET UNLOGGED", remedy="SET LOGGED", what="is not logged"),
    refused("id int PRIMARY KEY", "ALTER TABLE bad REPLICA IDENTITY NOTHING", remedy="FULL", what="NOTHING"),
    refused(
        'id int PRIMARY KEY, "ID" int',
        remedy="rename one",
        what="differ by case only",
        mend=sql_of('ALTER TABLE bad RENAME "ID" TO other'),
    ),
    refused(
        'id int PRIMARY KEY, "a`b" int',
        remedy="rename it",
        what="backtick",
        mend=sql_of('ALTER TABLE bad RENAME "a`b" TO ab'),
    ),
    Planted(
        "tables.followable",
        each(sql_of("CREATE VIEW bad_view AS SELECT 1 AS id"), with_setting("source", tables=["public.bad_view"])),
        "name the tables behind it",
        put_back,
        after=sql_of("DROP VIEW bad_view"),
    ),
    refused(
        "id int NOT NULL, PRIMARY KEY (id)) PARTITION BY LIST (id",
        "CREATE TABLE bad_part PARTITION OF bad DEFAULT",
        "ALTER TABLE bad_part REPLICA IDENTITY FULL",
        remedy="ALTER TABLE … REPLICA IDENTITY for each part",
        mend=sql_of("ALTER TABLE bad_part REPLICA IDENTITY DEFAULT"),
    ),
    Planted(
        "tables.of_patterns",
        each(sql_of("CREATE TABLE bad (id int)"), PATTERN),
        "REPLICA IDENTITY FULL",
        after=DROP,
    ),
    Planted(
        "tables.in_all_followers",
        each(sql_of("CREATE TABLE bad (id int)", "ALTER TABLE bad REPLICA IDENTITY FULL"), PATTERN),
        "give it one",
        each(ADD_KEY, sql_of("ALTER TABLE bad REPLICA IDENTITY DEFAULT")),
        after=DROP,
    ),
    Planted(
        "tables.keyless",
        each(sql_of("CREATE TABLE bad (id int NOT NULL)", "ALTER TABLE bad REPLICA IDENTITY FULL"), PATTERN),
        "source.keys",
        with_setting("source", keys={"public.bad": ["id"]}),
        after=DROP,
    ),
    Planted(
        "tables.generated_columns",
        bad("id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED"),
        "compute it in a view",
        sql_of("ALTER TABLE bad ALTER twice DROP EXPRESSION"),
        after=DROP,
    ),
    Planted(
        "tables.children",
        bad("id int PRIMARY KEY", "CREATE TABLE bad_child () INHERITS (bad)"),
        "name it in source.tables",
        sql_of("ALTER TABLE bad_child NO INHERIT bad"),
        after=sql_of("DROP TABLE bad_child, bad"),
    ),
    Planted(
        "tables.row_size",
        each(
            bad(
                "id int PRIMARY KEY, wide text",
                "INSERT INTO bad SELECT n, repeat('x', 900) FROM generate_series(1, 9) n",
                "ANALYZE bad",
            ),
            with_setting("log", max_row_bytes=1024),
        ),
        "raise log.max_row_bytes",
        with_setting("log", max_row_bytes=4096),
        after=DROP,
    ),
    Planted("tables.locked", lock, "pg_terminate_backend", unlock, what="is locked by session"),
    Planted("tables.analysed", bad("id int PRIMARY KEY"), "ANALYZE", after=DROP),
)

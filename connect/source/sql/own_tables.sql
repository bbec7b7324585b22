-- The toolkit's schema and tables. The key of the shapes is the name, since tables are followed by name.
-- `upgrades`: from which clusters pg_upgrade has brought it here (`upgrade.py`). `rewritten_by`: the transaction that last changed rows without change events, as the log has it: the lower 32 bits of
-- its id.
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {pipelines} (
    pipeline text PRIMARY KEY,
    slot text NOT NULL UNIQUE,
    publication text NOT NULL,
    prefix text NOT NULL,
    upgrades jsonb NOT NULL DEFAULT '[]'
);
CREATE TABLE IF NOT EXISTS {heartbeat} (pipeline text PRIMARY KEY, beat text NOT NULL);
CREATE TABLE IF NOT EXISTS {history} (
    schema text,
    "table" text,
    relation bigint NOT NULL,
    shape text NOT NULL,
    rewritten_by bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (schema, "table")
);

"""The SQL of the event triggers that write the schema history; `fill_sql` fills the `{…}` in."""

from typing import Final

from psycopg import sql

from connect.settings import SourceSettings
from connect.source.registration import HISTORY, PIPELINES
from connect.source.relation import SHAPES, RelationKind

FILES_TABLE: Final = "files"
"""The table with each table's file number: without event triggers, a new number shows a rewrite."""
KINDS: Final = (RelationKind.TABLE, RelationKind.PARTITIONED)

# Only publications that send whole tables: changes that one leaves out for a while are lost, and nothing else shows it.
_SENT: Final = """(
    SELECT p.pubname, r.prrelid AS relid FROM {pipelines} l JOIN pg_publication p ON p.pubname = l.publication
      JOIN pg_publication_rel r ON r.prpubid = p.oid
     WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND p.pubviaroot
       AND r.prqual IS NULL AND r.prattrs IS NULL)"""

# Writes only rows that differ: a written row is locked until its transaction ends, and DDL of other tables must not
# wait for that. For the same reason it takes no locks on other tables: `pg_get_publication_tables` and
# `pg_partition_tree` would, so other queries replace them. Tables that are no longer published are written once more.
NOTE: Final = """WITH sent AS MATERIALIZED {sent}
INSERT INTO {history} (schema, "table", relation, shape, rewritten_by)
SELECT now.schema, now."table", now.relation, now.shape::text,
       CASE WHEN {moved} THEN {current} ELSE coalesce(s.rewritten_by, 0) END
  FROM (SELECT found.schema, found."table", found.relation, found.shape || jsonb_build_object('publications', (
               SELECT coalesce(jsonb_agg(sent.pubname ORDER BY sent.pubname), '[]')
                 FROM sent WHERE sent.relid = found.relation::oid)) AS shape
          FROM ({shapes} WHERE n.nspname <> {own} AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p') AND (
                    c.oid IN (SELECT relid FROM sent{commanded})
                    OR c.oid IN (SELECT relation::oid FROM {history} WHERE shape::jsonb->'publications' <> '[]')
                ){apart}) AS found) AS now
  LEFT JOIN {history} s USING (schema, "table")
 WHERE s.shape IS DISTINCT FROM now.shape::text OR s.relation <> now.relation
ON CONFLICT (schema, "table") DO UPDATE
   SET relation = EXCLUDED.relation, shape = EXCLUDED.shape, rewritten_by = EXCLUDED.rewritten_by"""

_CURRENT: Final = "pg_current_xact_id()::text::numeric % 4294967296"

# True if rows changed without change events:
# - a partition with rows was attached or detached, or one was truncated (neither is sent);
# - the table became a partition, so its changes have another table's name from now on;
# - the publication left changes out for a while;
# - a generated column became a plain one, and keeps its values;
# - a value of an enum was renamed, or the fields of a composite type changed.
_MOVED: Final = """(s.relation = now.relation AND (
         s.shape::jsonb->'within' IS DISTINCT FROM now.shape->'within'
         OR now.shape->'publications' <> s.shape::jsonb->'publications'
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid, file oid)
             WHERE NOT EXISTS (SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid, file oid)
                                WHERE l.relation = was.relation AND l.file = was.file))
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(now.shape->'leaves') AS l(relation oid)
             WHERE pg_relation_size(l.relation) > 0
               AND NOT EXISTS (SELECT FROM jsonb_to_recordset(s.shape::jsonb->'leaves') AS was(relation oid)
                                WHERE was.relation = l.relation))
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'columns') AS was(number int, is_generated bool)
              JOIN jsonb_to_recordset(now.shape->'columns') AS c(number int, is_generated bool) USING (number)
             WHERE was.is_generated AND NOT c.is_generated)
         OR EXISTS (
            SELECT FROM jsonb_to_recordset(s.shape::jsonb->'types') AS was(oid oid, labels jsonb, attributes jsonb)
              JOIN jsonb_to_recordset(now.shape->'types') AS t(oid oid, labels jsonb, attributes jsonb) USING (oid)
             WHERE NOT t.labels @> was.labels OR t.attributes <> was.attributes)))"""

COMMANDED: Final = """
                              UNION SELECT objid FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'"""

# SKIP LOCKED: a session that holds a row's lock is about to write a newer shape than we can see.
FREE: Final = """SELECT schema, "table" FROM {history} WHERE shape::jsonb->>'kind' = ANY({kinds})
   FOR UPDATE SKIP LOCKED"""
APART: Final = """ AND c.relkind = ANY({kinds}) AND (
                    (n.nspname, c.relname) IN (SELECT * FROM unnest({schemas}::text[], {tables}::text[]))
                    OR NOT EXISTS (SELECT FROM {history} h WHERE h.schema = n.nspname AND h."table" = c.relname))"""

# Debezium fails at a table whose columns differ by case only: while streaming, and at every start.
UNREADABLE: Final = """SELECT pubname, relid::regclass AS name INTO unreadable FROM {sent} AS sent WHERE EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = sent.relid AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY lower(a.attname) HAVING count(*) > 1)"""

# Never fail the user's DDL: errors become warnings. Exceptions are serialization failures and deadlocks, which the user
# has to expect and retry: with a warning only, the change would never be noted. Reasons for a rewrite: 2 is a default,
# 4 a type; persistence (1) and access method (8) do not change values.
FUNCTIONS: Final = {
    "note_shapes": """DECLARE unreadable record;
BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands())
     AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp') THEN
    RETURN;
  END IF;
  DELETE FROM {history} s WHERE NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = s.relation::oid AND n.nspname = s.schema AND c.relname = s."table");
  LOOP
    -- asked anew each time: what is executed here is an event that this function hears of, too
    {unreadable} LIMIT 1;
    EXIT WHEN NOT FOUND;
    EXECUTE format('ALTER PUBLICATION %I DROP TABLE ONLY %s', unreadable.pubname, unreadable.name);
  END LOOP;
  {note};
EXCEPTION
  WHEN serialization_failure OR deadlock_detected THEN RAISE;
  WHEN OTHERS THEN RAISE WARNING 'cdc: a change of a table''s schema was not noted: %', SQLERRM;
END""",
    "note_rewrite": """BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 6 <> 0 THEN
    UPDATE {history} SET rewritten_by = {current} WHERE relation = pg_event_trigger_table_rewrite_oid();
  END IF;
EXCEPTION
  WHEN serialization_failure OR deadlock_detected THEN RAISE;
  WHEN OTHERS THEN RAISE WARNING 'cdc: a change of a table''s rows was not noted: %', SQLERRM;
END""",
}


# Without event triggers a migration calls this function after its commands. A new file number shows a rewrite; VACUUM
# FULL, CLUSTER and TRUNCATE look the same, so they cost a copy. It raises errors, since its caller wants the note.
SHAPES_NOW: Final = """DECLARE unreadable record;
BEGIN
  DELETE FROM {history} s WHERE NOT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = s.relation::oid AND n.nspname = s.schema AND c.relname = s."table");
  LOOP
    {unreadable} LIMIT 1;
    EXIT WHEN NOT FOUND;
    EXECUTE format('ALTER PUBLICATION %I DROP TABLE ONLY %s', unreadable.pubname, unreadable.name);
  END LOOP;
  UPDATE {history} s SET rewritten_by = {current} FROM {files} f
   WHERE f.relation = s.relation AND f.file <> pg_relation_filenode(s.relation::oid);
  {note};
  INSERT INTO {files} (relation, file, told)
  SELECT relation, pg_relation_filenode(relation::oid), shape FROM {history}
  ON CONFLICT (relation) DO UPDATE SET file = EXCLUDED.file, told = EXCLUDED.told
   WHERE (files.file, files.told) IS DISTINCT FROM (EXCLUDED.file, EXCLUDED.told);
END"""

# The current file numbers, for tables whose rewrite is noted already or changed no rows.
FILES: Final = """INSERT INTO {files} (relation, file, told)
SELECT relation, pg_relation_filenode(relation::oid), '' FROM {history}
ON CONFLICT (relation) DO UPDATE SET file = EXCLUDED.file WHERE files.file IS DISTINCT FROM EXCLUDED.file"""


def fill_sql(text: str, source: SourceSettings, **further: sql.Composable) -> sql.Composed:
    """Fill the names of the toolkit's tables, and `further` parts, into a text of this module."""
    schema = source.heartbeat_schema
    names = {"history": HISTORY, "pipelines": PIPELINES, "files": FILES_TABLE}
    identifiers = {key: sql.Identifier(schema, name) for key, name in names.items()}
    parts = {"shapes": SHAPES, "moved": _MOVED, "current": _CURRENT}
    own = {"sent": sql.SQL(_SENT).format(**identifiers), **{name: sql.SQL(part) for name, part in parts.items()}}
    return sql.SQL(text).format(**identifiers, **own, own=sql.Literal(schema), **further)

"""A source that pg_upgrade has made anew: another cluster, with the rows, the slots and the oids of the old one.

pg_upgrade refuses slots with changes that were not read, and makes each of them again at the new cluster's first LSN
(Postgres manual, "pg_upgrade", from version 17 on). So nothing lies between the log's end and the new slot, if the log
has the last heartbeat of the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection, sql

from cdc.connect.settings import SourceSettings
from cdc.connect.source.heartbeat import HEARTBEAT, UPGRADED, heartbeat_query
from cdc.connect.source.registration import HISTORY, PIPELINES
from cdc.core.errors import PreconditionError
from cdc.core.position import Lsn, format_lsn, parse_lsn

# a dump that was restored elsewhere has the same rows, and other oids
_OTHER_OIDS: Final = """
SELECT count(*) FROM {} noted LEFT JOIN pg_class c ON c.oid = noted.relation
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (n.nspname, c.relname::text) IS DISTINCT FROM (noted.schema, noted."table")"""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Cluster `old` went on as cluster `new`, whose slot began at `lsn`; both by their system identifiers."""

    old: int
    new: int
    lsn: Lsn

    def to_error(self) -> PreconditionError:
        """Why nobody goes on yet."""
        what = f"the source was upgraded: cluster {self.old} went on as {self.new}, and has kept the slot"
        return PreconditionError(what, "`cdc bootstrap` goes on from there")


def read_upgrades(connection: Connection[Any], source: SourceSettings, pipeline: str) -> list[Upgrade]:
    """The upgrades that the pipeline has gone on after."""
    query = sql.SQL("SELECT upgrades FROM {} WHERE pipeline = %s").format(_table(source, PIPELINES))
    row = connection.execute(query, (pipeline,)).fetchone()
    return [Upgrade(int(one["old"]), int(one["new"]), parse_lsn(one["lsn"])) for one in (row[0] if row else ())]


def note_upgrade(connection: Connection[Any], source: SourceSettings, pipeline: str, upgrade: Upgrade) -> None:
    """Note it for all who compare clusters, and in the log by a heartbeat, which names the slot's new place."""
    noted = {"old": str(upgrade.old), "new": str(upgrade.new), "lsn": format_lsn(upgrade.lsn)}
    add = sql.SQL("UPDATE {} SET upgrades = upgrades || {} WHERE pipeline = {}").format(
        _table(source, PIPELINES), _as_json(noted), sql.Literal(pipeline)
    )
    with connection.transaction():
        connection.execute(add)
        lsn = sql.SQL("{}::text").format(sql.Literal(noted["lsn"]))
        connection.execute(heartbeat_query(source, pipeline, UPGRADED, slot=lsn))


def read_current_beat(connection: Connection[Any], source: SourceSettings, pipeline: str) -> str | None:
    """The newest version of the pipeline's heartbeat, as the source has it."""
    query = sql.SQL("SELECT beat FROM {} WHERE pipeline = %s").format(_table(source, HEARTBEAT))
    row = connection.execute(query, (pipeline,)).fetchone()
    return row[0] if row else None


def has_same_oids(connection: Connection[Any], source: SourceSettings) -> bool:
    """Have all tables whose shape was noted the oid that they had then?"""
    row = connection.execute(sql.SQL(_OTHER_OIDS).format(_table(source, HISTORY))).fetchone()
    return row == (0,)


def _table(source: SourceSettings, name: str) -> sql.Identifier:
    return sql.Identifier(source.heartbeat_schema, name)


def _as_json(value: dict[str, str]) -> sql.Composed:
    pairs: Sequence[sql.Composable] = [sql.Literal(part) for pair in value.items() for part in pair]
    return sql.SQL("jsonb_build_array(jsonb_build_object({}))").format(sql.SQL(", ").join(pairs))

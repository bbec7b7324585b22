"""Finds out whether another cluster is the old one after pg_upgrade, from which the log goes on without a gap."""

from collections.abc import Iterable
from dataclasses import replace

from psycopg import Connection

from cdc.connect.source import registration
from cdc.connect.source.access.connection import read_timeline
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.slots import slot
from cdc.connect.source.upgrade import Upgrade, has_same_oids, read_current_beat, read_upgrades
from cdc.core.errors import RECAPTURE, HistoryLostError, PreconditionError
from cdc.core.position import Bookmark, Lsn, Position
from cdc.core.timeline import SourceTimeline
from cdc.log.names import change_topic
from cdc.run.health.heartbeat_chain import find_last_beat
from cdc.run.pipeline import Pipeline


def find_new_cluster(pipeline: Pipeline) -> Upgrade | None:
    """What pg_upgrade has done to the source since it was captured last; None if nothing.

    Raises HistoryLostError when the source is another cluster, or was set back. A bookmark knows its timeline. The
    position does not, so it is only compared with the source's end.
    """
    lake = pipeline.lake_follower
    bookmarks, position = lake.bookmarks(), lake.position()
    if not bookmarks:
        return None
    past = read_timeline(pipeline.settings.source)
    if {bookmark.system_identifier for bookmark in bookmarks.values()} != {past.system_identifier}:
        with pipeline.open_source() as connection:
            noted = _read_noted(pipeline, connection)
            past = replace(past, upgraded={upgrade.old: upgrade.lsn for upgrade in noted})
            newest = noted[-1].new if noted else _find_unknown(bookmarks.values(), past)
            if newest not in (None, past.system_identifier) and position is not None:
                return _find_upgrade(pipeline, connection, past, newest, position)
    # every one: tables may have been copied before and after a switch of the source
    for name, bookmark in bookmarks.items():
        past.check(bookmark, str(name))
    if position is not None:
        past.check(Bookmark(position.lsn, past.system_identifier, past.timeline), "the lake")
    return None


def _read_noted(pipeline: Pipeline, connection: Connection) -> list[Upgrade]:
    try:
        registered = registration.read_registration(connection, pipeline.settings.source, pipeline.name)
    except PreconditionError:
        return []
    return read_upgrades(connection, pipeline.settings.source, pipeline.name) if registered else []


def _find_unknown(bookmarks: Iterable[Bookmark], past: SourceTimeline) -> int | None:
    """The cluster of a bookmark that is not the source's."""
    found = (mark.system_identifier for mark in bookmarks)
    return next((cluster for cluster in found if cluster != past.system_identifier), None)


def _find_upgrade(
    pipeline: Pipeline, connection: Connection, past: SourceTimeline, old: int, position: Position
) -> Upgrade:
    """The upgrade of cluster `old` to the source's.

    Raises HistoryLostError, with the reason, when it is none or has lost something. `connection` is to the source.
    """
    try:
        return Upgrade(old, past.system_identifier, _find_place(pipeline, connection, position))
    except _NoUpgradeError as why:
        what = f"the source is cluster {past.system_identifier}, the followers have that of {old}, and"
        remedy = f"correct source.host, or {RECAPTURE}, since what the followers hold is not this source's past"
        raise HistoryLostError(f"{what} it is not {pipeline.name}'s after pg_upgrade: {why}", remedy) from None


class _NoUpgradeError(Exception):
    """Why a cluster is not the old one after pg_upgrade."""


def _find_place(pipeline: Pipeline, connection: Connection, position: Position) -> Lsn:
    """Where the new cluster's slot begins."""
    source, name = pipeline.settings.source, pipeline.name
    try:
        registered = registration.read_registration(connection, source, name)
    except PreconditionError as error:
        raise _NoUpgradeError(error.what) from None
    state = slot.read_slot(connection, source) if registered else None
    if registered is None or state is None or state.confirmed_lsn is None or state.wal_status == "lost":
        raise _NoUpgradeError(
            "the pipeline's registration is gone" if registered is None else "it has not kept the slot"
        )
    if state.confirmed_lsn <= position.lsn:
        raise _NoUpgradeError("its slot is below what the lake has")
    if not has_same_oids(connection, source):
        raise _NoUpgradeError("its tables have other oids, so they were restored from a dump")
    topic = change_topic(pipeline.settings.log.prefix, heartbeat_table(source).name)
    with pipeline.open_log() as reader:
        last = find_last_beat(reader, topic, name)
    if last is None or last != read_current_beat(connection, source, name):
        raise _NoUpgradeError("the log lacks its last heartbeat")
    return state.confirmed_lsn

"""Checks that source and log still lead on from the lake's position, before anything is built upon it.

The stream finds gaps by itself, in the log's order (`heartbeat_chain.py`). Here slot, publication and log are asked.
"""

from contextlib import suppress

from psycopg import Connection

from cdc.connect.capture.debezium_properties import sends_messages
from cdc.connect.source import registration
from cdc.connect.source.heartbeat import heartbeat_table
from cdc.connect.source.obstacles import check_not_lost
from cdc.connect.source.registration import Registration
from cdc.connect.source.slots import slot
from cdc.core.errors import RECAPTURE, HistoryLostError, UnreachableError
from cdc.core.position import Position, format_lsn
from cdc.core.waiting import wait_until
from cdc.log.names import change_topic, transaction_topic
from cdc.log.transaction_topic import check_position
from cdc.run.health import patience
from cdc.run.health.confirmed import ConfirmedLsns
from cdc.run.health.heartbeat_chain import check_ahead
from cdc.run.pipeline import Pipeline


def check_continuity(pipeline: Pipeline, connection: Connection, position: Position) -> None:
    """Raise HistoryLostError when source or log lack changes behind the lake's position.

    `connection` is to the source. A log that does not answer is no error here: the streams wait for it.
    """
    check_source(pipeline, connection)
    with suppress(UnreachableError):
        check_log_end(pipeline, connection, position)


def check_log_end(pipeline: Pipeline, connection: Connection, position: Position) -> None:
    """Raise HistoryLostError when the log does not lead on from the position to the slot.

    Raises UnreachableError when the log does not answer.
    """
    with pipeline.open_log() as reader:
        check_position(reader, transaction_topic(pipeline.settings.log.prefix), position)
        check_slot(pipeline, connection, position)
        check_ahead(pipeline.settings.log, pipeline.settings.source, pipeline.name, position)


def check_slot(pipeline: Pipeline, connection: Connection, position: Position) -> None:
    """Raise HistoryLostError when no commit in the log is at the slot's confirmed LSN: the slot keeps none below.

    Raises UnreachableError when the log does not answer.
    """
    state = slot.read_slot(connection, pipeline.settings.source)
    # With logical messages in the log, Debezium also confirms the LSN of a message outside a transaction, and no
    # commit is at that LSN.
    if state is None or state.confirmed_lsn is None or sends_messages(pipeline.settings.connect):
        return
    log = pipeline.settings.log
    beats = change_topic(log.prefix, heartbeat_table(pipeline.settings.source).name)
    confirmed, known = state.confirmed_lsn, ConfirmedLsns(log, position.log_start, beats)
    if not wait_until(lambda: known.include(confirmed), patience.VISIBLE_SECONDS):
        raise HistoryLostError(
            f"slot {pipeline.settings.source.slot} stands at {format_lsn(confirmed)}, and no commit of the log is at"
            " that LSN: somebody moved the slot, or made it anew, or the log lost its end",
            RECAPTURE,
        )


def check_source(pipeline: Pipeline, connection: Connection) -> Registration:
    """Return the registration of the pipeline.

    Raises HistoryLostError when the source has lost that, the slot or the publication, or cannot decode on.
    """
    src, name = pipeline.settings.source, pipeline.name
    registered = registration.read_registration(connection, src, name)
    if registered is None:
        raise HistoryLostError(
            f"the source does not know pipeline {name} any more: schema {src.heartbeat_schema}, or its row, is gone",
            RECAPTURE,
        )
    check_not_lost(connection, src)
    return registered

"""A remedy is asked, not guessed: what helps depends on the state of the parts, and a verb that is named takes it."""

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import Connection
from pydantic import SecretStr

from cdc.__main__ import VERBS
from cdc.cli.app import build
from cdc.connect.capture import topics
from cdc.connect.capture.connector_state import ConnectorState
from cdc.connect.settings import SourceSettings
from cdc.connect.source import publication
from cdc.connect.source.slots import decoding, slot
from cdc.connect.source.slots.slot import SlotState
from cdc.core.errors import RECAPTURE, CdcError, ConfigurationError, HistoryLostError, PreconditionError, TableLostError
from cdc.core.table import TableName
from cdc.log.clients.topics import Admin, Topic
from cdc.log.settings import LogSettings
from cdc.run.health.patience import AT_ONCE
from cdc.run.health.standstill import Standstill
from cdc.run.health.trouble import MEND, PASS_OVER, find_trouble
from cdc.run.read.cuts import parse_moment
from cdc.sinks.lake.layout import Lake, require_table

SOURCE = SourceSettings(
    host="h", dbname="d", user="u", password=SecretStr("p"), tables=["t"], slot="cdc_shop", publication="cdc_shop"
)
NOBODY = cast("Connection[Any]", None)
SENTENCES = (
    'ERROR: replication slot "cdc_shop" is active for PID 4711',
    'ERROR: replication slot "cdc_shop" does not exist',
    'ERROR: can no longer get changes from replication slot "cdc_shop"',
    'ERROR: publication "cdc_shop" does not exist',
    "FEHLER: Publikation »cdc_shop« existiert nicht",
    "ERROR: permission denied for publication cdc_shop",
    "ERROR: requested WAL segment 000000010000000000000003 has already been removed",
    "FATAL: sorry, too many clients already",
    "FATAL: terminating connection due to administrator command",
    'FATAL: password authentication failed for user "cdc"',
    "ERROR: canceling statement due to lock timeout",
    "The connector is trying to read change stream starting at PostgresOffsetContext [lsn=LSN{0/16B3748}], but this is"
    " no longer available on the server. Reconfigure the connector to use a snapshot when needed.",
    "Timeout expired before the last committed offset could be determined",
    "Failed to flush offsets to storage",
    "The columns of table public.came differ only by case: a, A",
    "java.net.UnknownHostException: publication-db.replication.slot.example",
    "org.apache.kafka.common.errors.RecordTooLargeException: the request included a message larger than the max size",
    "java.lang.OutOfMemoryError: Java heap space",
    "no reason given",
)
"""Of Postgres, Debezium, the driver and Kafka: true ones. Some name a slot, a publication or an offset and are passing;
others need a new capture and name none of them."""
HEALTHY = SlotState(
    "cdc_shop", active=False, wal_status="reserved", confirmed_lsn=None, restart_lsn=None, retained_bytes=0
)
READ_BY_OTHER = SlotState("cdc_shop", True, "reserved", None, None, 0, active_pid=4711)
LOST = SlotState("cdc_shop", False, "lost", None, None, 0)
PARTIAL = PreconditionError("publication cdc_shop leaves changes out", "ALTER PUBLICATION")
UNDECODABLE = HistoryLostError("slot cdc_shop cannot be decoded on", RECAPTURE)
STATES: dict[str, tuple[dict[str, object], str]] = {
    "healthy": ({}, MEND),
    "slot read by another session": ({"slot": READ_BY_OTHER}, "slot cdc_shop is read by another session: end it"),
    "slot gone": ({"slot": None}, RECAPTURE),
    "slot lost": ({"slot": LOST}, f"raise max_slot_wal_keep_size; {RECAPTURE}"),
    "publication gone": ({"published": None}, RECAPTURE),
    "publication made again": ({"undecodable": UNDECODABLE}, RECAPTURE),
    "publication partial": ({"partial": PARTIAL}, PARTIAL.remedy),
}


def put(monkeypatch: pytest.MonkeyPatch, **state: object) -> None:
    """Have the source answer so."""

    def raising(name: str) -> Any:
        def check(*_: object) -> None:
            if isinstance(error := state.get(name), Exception):
                raise error

        return check

    monkeypatch.setattr(slot, "read_state", lambda *_: state.get("slot", HEALTHY))
    monkeypatch.setattr(publication, "read_publication", lambda *_: state.get("published", set()))
    monkeypatch.setattr(publication, "check_whole", raising("partial"))
    monkeypatch.setattr(decoding, "check_decodable", raising("undecodable"))


@pytest.mark.parametrize("name", STATES)
def test_remedy_is_that_of_the_source_whatever_a_failure_says(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    state, remedy = STATES[name]
    put(monkeypatch, **state)
    for text in SENTENCES:
        trouble = find_trouble(NOBODY, SOURCE, ConnectorState("c", "FAILED", ("FAILED",), text))
        assert trouble is not None
        assert trouble.remedy.startswith(remedy), (name, text)
        assert trouble.what.startswith(f"connector c failed: {text}")
        # who is sent to copy everything again has lost something
        assert (RECAPTURE in trouble.remedy) is isinstance(trouble, HistoryLostError), (name, text)


@given(st.text())
@example("publication replication slot offset no longer available")
def test_no_words_of_a_failure_decide(text: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        put(patched)
        trouble = find_trouble(NOBODY, SOURCE, ConnectorState("c", "FAILED", (), text))
        assert trouble is not None
        assert trouble.remedy == MEND


def test_a_start_that_fails_again_does_not_send_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cdc bootstrap` is named by others; behind its own start it names what passes over the cause."""
    put(monkeypatch)
    failed = ConnectorState("c", "FAILED", ("FAILED",), "a row that Debezium cannot read")
    again = find_trouble(NOBODY, SOURCE, failed, PASS_OVER)
    still = Standstill(0.0, 60.0, "slot s is read by nobody").to_failing(failed, None, AT_ONCE, PASS_OVER)
    for error in (again, still.error):
        assert error is not None
        assert "`cdc bootstrap`" not in error.remedy
        assert "`cdc recapture`" in error.remedy


def test_standstill_has_the_remedy_of_its_cause() -> None:
    obstacle = UNDECODABLE
    still = Standstill(0.0, 60.0, "slot s is read by nobody", obstacle=obstacle)
    told = still.to_failing("connector c is RUNNING", None, AT_ONCE).error
    assert obstacle.what in told.what
    assert told.remedy == RECAPTURE


LOG = LogSettings(bootstrap="k", prefix="shop", partitions=1)
BEATS, SHAPES = TableName("cdc", "heartbeat"), TableName("cdc", "shapes")


class Topics:
    """An admin client of topics that are there with so many partitions."""

    def __init__(self, **partitions: int) -> None:
        self._there = {name: Topic(name, count) for name, count in partitions.items()}

    def topics(self, names: list[str]) -> dict[str, Topic]:
        return {name: self._there[name] for name in names if name in self._there}


@given(
    configured=st.integers(1, 3),
    there=st.dictionaries(st.integers(0, 7), st.integers(1, 4)),
    messages=st.booleans(),
)
@example(configured=1, there={5: 2}, messages=False)
def test_a_recapture_never_meets_the_topics_that_named_it(
    configured: int, there: dict[int, int], messages: bool
) -> None:
    """What is in order needs one partition, and is made anew; an added partition of another topic is followed."""
    log = LOG.model_copy(update={"partitions": configured})
    tables = [TableName("public", "a"), TableName("public", "b")]
    wanted = topics.required_topics(log, tables, BEATS, SHAPES, messages=messages)
    at = {wanted[index].name: count for index, count in there.items() if index < len(wanted)}
    refusal = refusal_of(wanted, at)
    split = topics.find_split(wanted, Topics(**at).topics([*at]))
    assert isinstance(refusal, HistoryLostError) is bool(split)
    # what is left once a recapture has made those anew; too few partitions are refused before it drops anything
    again = refusal_of(wanted, {name: count for name, count in at.items() if name not in split})
    assert again is None or (not isinstance(again, HistoryLostError) and "set log.partitions back" in again.remedy)


def refusal_of(wanted: list[Topic], there: dict[str, int]) -> CdcError | None:
    """What is said against these topics; of the others, those with more partitions are named."""
    try:
        more = topics.check(cast(Admin, Topics(**there)), wanted, ours=True)
    except CdcError as refusal:
        return refusal
    assert more == [topic.name for topic in wanted if there.get(topic.name, 0) > topic.partitions]
    return None


@pytest.mark.parametrize("at", ["yesterday", "-1/0", "2024-01-01", ""])
def test_a_moment_that_is_none_is_told_with_the_form_of_one(at: str) -> None:
    with pytest.raises(ConfigurationError, match="is neither an LSN nor a time → an LSN is written as 0/16B3748"):
        parse_moment(at)


def test_a_table_that_is_gone_from_the_lake_is_lost(tmp_path: Path) -> None:
    with pytest.raises(
        TableLostError, match=r"public\.t: it is gone from the lake → .*`cdc bootstrap --again public\.t`"
    ):
        require_table(Lake(str(tmp_path), "shop", None), TableName("public", "t"), 3)


ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`cdc ([^`]+)`|run cdc ([a-z]+)")
WORD, OPTION = re.compile(r"[a-z][a-z-]*"), re.compile(r"--[a-z-]+")


def texts() -> Iterator[tuple[str, str]]:
    """File and text of every string of the product."""
    for folder in ("cdc", "connect", "sinks", "snapshots"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    yield (
                        str(path),
                        "".join(str(part.value) if isinstance(part, ast.Constant) else "{x}" for part in node.values),
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield str(path), node.value


def test_every_verb_and_option_that_a_text_names_is_there() -> None:
    top: Any = typer.main.get_command(build(VERBS))
    found = [(path, match) for path, text in texts() for match in NAMED.finditer(text)]
    assert len(found) > 60
    for path, match in found:
        words, command = [word.partition("|")[0] for word in (match[1] or match[2]).split()], top
        for word in takewhile(WORD.fullmatch, words):
            if hasattr(command, "commands"):
                assert word in command.commands, (path, match[0])
                command = command.commands[word]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {*filter(OPTION.fullmatch, words)} <= {*options, "--help"}, (path, match[0])

"""Topics that are gone: told once that is sure, and of tables once it lasts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.core.errors import HistoryLostError, PreconditionError, UnreachableError
from cdc.core.position import Lsn, Position
from cdc.core.table import TableName
from cdc.run.health import gone_topics
from cdc.run.health.gone_topics import GoneTopics
from cdc.run.pipeline import Pipeline

ORDER, BEATS, SHAPES = "p.transaction", "p.cdc.heartbeat", "p.cdc.schema_history"
THINGS, OTHERS = "p.public.things", "p.public.others"
KEEPALIVE = "__debezium-heartbeat.p"


class Brokers:
    """What the brokers say, look by look: the topics that are there, or no answer; and the time."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.answers: list[set[str] | None] = []
        self.hidden = set[str]()
        self.place: Position | None = None
        self.now = 100.0
        self.followed = {TableName("public", "things"), TableName("public", "others")}
        patched.setattr(gone_topics, "Admin", lambda _: self)
        patched.setattr(gone_topics, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=lambda _: None))
        source = SimpleNamespace(heartbeat_schema="cdc")
        log = SimpleNamespace(prefix="p")
        patched.setattr(gone_topics, "check_reachable", lambda _: None)
        patched.setattr(gone_topics, "read_operations", lambda _, names: dict.fromkeys(self.hidden & set(names)))
        patched.setattr(gone_topics, "FRESH_SECONDS", 0.0)
        tables = SimpleNamespace(select=lambda *_: dict.fromkeys(self.followed), look_again=lambda _: None)
        selection = [TableName("public", "things"), TableName("public", "others")]
        settings = SimpleNamespace(source=source, log=log, selection=selection)
        pipeline: Any = SimpleNamespace(
            settings=settings, lake_follower=SimpleNamespace(tables=tables, position=lambda: self.place)
        )
        self.gone = GoneTopics(cast(Pipeline, pipeline))
        self.all = {self.gone._order, *self.gone._others, THINGS, OTHERS}

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topics(self, names: list[str]) -> dict[str, None]:
        there = self.answers.pop(0) if self.answers else self.all
        if there is None:
            raise UnreachableError("Kafka does not answer", "")
        return {name: None for name in names if name in there}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_every_topic_is_there(brokers: Brokers) -> None:
    assert (brokers.gone.find_error(), brokers.gone.find_tables()) == (None, {})


def test_a_topic_that_is_missing_in_one_answer_is_not_gone(brokers: Brokers) -> None:
    brokers.answers = [brokers.all - {THINGS}]
    assert brokers.gone.find_error() is None
    assert brokers.answers == []


def test_the_order_of_commits_comes_before_a_table(brokers: Brokers) -> None:
    brokers.answers = [{THINGS}] * 2
    found = brokers.gone.find_error()
    assert isinstance(found, HistoryLostError)
    assert found.what == f"there is no topic {brokers.gone._order}, which holds the order of the commits"


def test_a_table_is_not_copied_without_the_order_of_commits(brokers: Brokers) -> None:
    brokers.answers = [{OTHERS}] * 4
    assert brokers.gone.find_tables() == {}
    brokers.now += 5
    assert brokers.gone.find_tables() == {}


def test_a_topic_that_we_may_not_know_of_is_not_gone(brokers: Brokers) -> None:
    brokers.hidden = {THINGS, KEEPALIVE}
    brokers.answers = [brokers.all - {THINGS, KEEPALIVE}] * 4
    assert brokers.gone.find_error() is None
    brokers.now += 5
    assert brokers.gone.find_tables() == {}


def test_a_topic_that_is_read_on_needs_another_capture(brokers: Brokers) -> None:
    brokers.place = Position(3, Lsn(3), 3, {BEATS: {0: 7}})
    brokers.answers = [brokers.all - {BEATS}] * 2
    assert isinstance(brokers.gone.find_error(), HistoryLostError)
    # nothing was read of the new one yet
    brokers.place = Position(3, Lsn(3), 3, {BEATS: {0: 0}})
    brokers.answers = [brokers.all - {BEATS}]
    assert isinstance(brokers.gone.find_error(), PreconditionError)


@pytest.mark.parametrize("topic", [BEATS, KEEPALIVE])
def test_another_topic_is_made_by_bootstrap(brokers: Brokers, topic: str) -> None:
    brokers.answers = [brokers.all - {topic, OTHERS}] * 2
    found = brokers.gone.find_error()
    assert isinstance(found, PreconditionError)
    assert str(found) == f"topic {topic} is gone → `cdc bootstrap` makes it again"


def test_a_table_is_copied_again_once_its_topic_is_gone_for_a_while(brokers: Brokers) -> None:
    brokers.answers = [brokers.all - {THINGS}] * 4
    assert (
        str(brokers.gone.find_error()) == f"topic {THINGS} is gone → `cdc follow` copies public.things again by itself"
    )
    assert brokers.gone.find_tables() == {}
    brokers.now += 5
    assert [*brokers.gone.find_tables()] == [TableName("public", "things")]
    # by the next question it may be copied already
    assert brokers.gone.find_tables() == {}
    # it stops, and is asked for no more
    brokers.followed.remove(TableName("public", "things"))
    assert (brokers.gone.find_tables(), brokers.gone.find_error()) == ({}, None)


def test_brokers_that_do_not_answer_say_nothing(brokers: Brokers) -> None:
    brokers.answers = [brokers.all - {THINGS}, brokers.all - {THINGS}, None]
    assert brokers.gone.find_error() is not None
    brokers.now += 5
    assert brokers.gone.find_tables() == {}
    # a look later it counts anew
    brokers.answers = [brokers.all - {THINGS}] * 2
    assert brokers.gone.find_tables() == {}

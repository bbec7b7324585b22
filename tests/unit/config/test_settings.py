"""The settings as values: what is derived, and what must hold between the blocks."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from cdc.config.settings import FOLLOWER_NAME, VIEWS, PipelineSettings
from cdc.core.table import TableName
from cdc.sinks.search.settings import SearchSettings


def values(**changed: Any) -> dict[str, Any]:
    """The least that a configuration says, with blocks replaced."""
    return {
        "version": 1,
        "pipeline": {"name": "shop"},
        "source": {"host": "db", "dbname": "shop", "user": "cdc", "password": "x", "tables": ["public.orders"]},
        "log": {"bootstrap": "kafka:9092"},
        "connect": {"url": "http://connect:8083"},
        "followers": {"lake": {"kind": "delta", "path": "lake"}},
        **changed,
    }


def made(**changed: Any) -> PipelineSettings:
    return PipelineSettings.model_validate(values(**changed))


def with_followers(**followers: dict[str, Any]) -> PipelineSettings:
    return made(followers={"lake": {"kind": "delta", "path": "lake"}, **followers})


def with_tables(*tables: str, **source: Any) -> PipelineSettings:
    return made(source={**values()["source"], "tables": list(tables), **source})


SEARCH = {"kind": "search", "url": "http://search:9200"}


def test_default_names_come_from_the_pipeline() -> None:
    settings = with_followers(search=SEARCH)
    assert (settings.source.slot, settings.source.publication) == ("cdc_shop", "cdc_shop")
    assert (settings.log.prefix, settings.connect.connector) == ("shop", "cdc-shop")
    search = settings.followers["search"]
    assert isinstance(search, SearchSettings)
    assert search.prefix == "shop"


def test_given_names_stay() -> None:
    settings = made(
        source={**values()["source"], "slot": "s", "publication": "p"},
        log={"bootstrap": "k", "prefix": "t"},
        connect={"url": "http://c", "connector": "c"},
        followers={"lake": {"kind": "delta", "path": "lake"}, "search": {**SEARCH, "prefix": "i"}},
    )
    names = (settings.source.slot, settings.source.publication, settings.log.prefix, settings.connect.connector)
    assert names == ("s", "p", "t", "c")
    assert settings.followers["search"].model_dump()["prefix"] == "i"


def alerts(**changed: Any) -> dict[str, Any]:
    queries = {"table": "orders", "column": "query"}
    return {**SEARCH, "kind": "percolator", "queries": queries, "tables": ["orders"], **changed}


def test_saved_searches_have_indexes_of_their_own() -> None:
    settings = with_followers(search=SEARCH, alerts=alerts())
    assert settings.followers["alerts"].model_dump()["prefix"] == "shop-alerts"
    with pytest.raises(ValidationError, match="writes where 'search' writes"):
        with_followers(search=SEARCH, alerts=alerts(prefix="shop"))


def test_saved_searches_are_those_of_a_followed_table() -> None:
    settings = made(
        source={**values()["source"], "tables": ["public.orders", "public.searches", "public.others"]},
        followers={
            "lake": {"kind": "delta", "path": "lake"},
            "alerts": alerts(queries={"table": "searches", "column": "q"}),
        },
    )
    held = [name for name in ("orders", "searches", "others") if settings.holds("alerts", TableName("public", name))]
    assert held == ["orders", "searches"]
    with pytest.raises(ValidationError, match=r"public\.searches is none of source\.tables"):
        with_followers(alerts=alerts(queries={"table": "public.searches", "column": "q"}))


def test_left_out_tables_must_be_source_tables() -> None:
    settings = with_followers(search={**SEARCH, "leave_out": ["orders"]})
    assert not settings.holds("search", TableName("public", "orders"))
    for wrong in ("order", "public.*", "!orders"):
        with pytest.raises(ValidationError, match=rf"{re.escape(wrong)} is none of source\.tables"):
            with_followers(search={**SEARCH, "leave_out": [wrong]})


def test_tables_are_parsed_and_trimmed() -> None:
    settings = with_tables(" orders ", "sales.Lines")
    assert settings.selection.names == (TableName("public", "orders"), TableName("sales", "Lines"))
    assert settings.source.tables == ["public.orders", "sales.Lines"]


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (["orders", "public.orders"], "public.orders is there twice"),
        (["cdc.heartbeat"], "cdc.heartbeat lies in the toolkit's own schema"),
        (["public."], '"public." is not a table\'s name: schema.table'),
        (["!public.old"], "only says which tables are not followed"),
        (["public.*", "!public. "], '"!public. " is not a table\'s name: schema.table'),
        (["public.*", "*"], "public.* is there twice"),
        (["public." + "é" * 32], "a name in Postgres has at most 63 bytes"),
    ],
)
def test_invalid_tables_are_refused(tables: list[str], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        with_tables(*tables)
    assert sentence in str(refused.value)


def test_heartbeat_schema_can_be_another() -> None:
    assert with_tables("cdc.orders", heartbeat_schema="beat").selection.names == (TableName("cdc", "orders"),)


@pytest.mark.parametrize(
    ("followers", "sentence"),
    [
        ({"latest": {"kind": "latest"}}, "one of kind delta is needed"),
        ({"a": {"kind": "delta", "path": "a"}, "b": {"kind": "delta", "path": "b"}}, "besides 'a'"),
        ({"a": {"kind": "delta", "path": "a"}, "b": SEARCH, "c": SEARCH}, "writes where 'b' writes"),
        ({"a": {"kind": "delta", "path": "a"}, "b": {"kind": "latest"}, "c": {"kind": "latest"}}, "where 'b' writes"),
        ({}, "at least 1 item"),
    ],
)
def test_invalid_followers_are_refused(followers: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        made(followers=followers)
    assert sentence in str(refused.value)


def test_two_search_followers_may_have_different_prefixes() -> None:
    assert len(with_followers(one=SEARCH, two={**SEARCH, "prefix": "two"}).followers) == 3


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        made().version = 1  # type: ignore[misc]


def test_relative_paths_start_at_the_folder(tmp_path: Path) -> None:
    settings = made().resolve_paths(tmp_path)
    assert settings.pipeline.state == str(tmp_path / ".cdc")
    name, delta = settings.delta
    assert (name, delta.path) == ("lake", str(tmp_path / "lake"))
    assert settings.resolve_paths(Path("/elsewhere")) == settings


@pytest.mark.parametrize("path", ["s3://bucket/lake", "s3://bucket", "/lake"])
def test_absolute_paths_and_uris_stay(path: str, tmp_path: Path) -> None:
    settings = made(followers={"lake": {"kind": "delta", "path": path}}).resolve_paths(tmp_path)
    assert settings.delta[1].path == path


@pytest.mark.parametrize(
    ("topics", "finding"),
    [
        (("shop.transaction",), "would be the capture's: shop.transaction"),
        (("shop_transaction",), "would be the capture's: shop_transaction"),
        (("__debezium-heartbeat.shop",), "would be the capture's"),
        (("shop.connect-offsets",), "would be the capture's: shop.connect-offsets"),
        (("shop.latest-position",), "would be the latest log's"),
        (("shop.public.orders",), "is named as topics of tables are"),
        (("found", "found"), "would be that of 'm0': found"),
        (("", "shop.m0-matches-position"), "would be that of 'm0': shop.m0-matches-position"),
    ],
)
def test_no_follower_writes_to_a_topic_of_somebody_else(topics: tuple[str, ...], finding: str) -> None:
    matching = {f"m{at}": alerts(topic=topic, prefix=f"p{at}") for at, topic in enumerate(topics)}
    with pytest.raises(ValidationError, match=re.escape(finding)):
        with_followers(**matching)


def test_topics_of_matches_may_have_any_other_name() -> None:
    matching = {f"m{at}": alerts(topic=topic, prefix=f"p{at}") for at, topic in enumerate(("", "shop.found", "a.b.c"))}
    assert with_followers(**matching).followers.keys() == {"lake", *matching}


@given(st.from_regex(FOLLOWER_NAME, fullmatch=True))
@example("bootstrap")
def test_a_follower_may_have_any_name_but_that_of_the_views(name: str) -> None:
    assume(name != "lake")
    if name == VIEWS:
        with pytest.raises(ValidationError, match="is the name of the views' own stream"):
            with_followers(**{name: SEARCH})
    else:
        assert name in with_followers(**{name: SEARCH}).followers


@pytest.mark.parametrize("host", ["pg1,,pg2", "pg1, pg2", "pg1,", " pg1"])
def test_several_hosts_are_written_as_both_drivers_read_them(host: str) -> None:
    with pytest.raises(ValidationError, match="several hosts are written as pg1,pg2"):
        with_tables("orders", host=host)
    assert (
        made(
            source={**values()["source"], "host": "pg1,pg2"}, connect={"url": "http://c", "source_host": "pg"}
        ).source.host
        == "pg1,pg2"
    )

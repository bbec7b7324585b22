"""The SQL of the source: every part of a function or statement is filled in."""

import re
from importlib.resources import files

import pytest

from cdc.connect.settings import SourceSettings
from cdc.connect.source.event_triggers import make_function_body, make_trigger_body
from cdc.connect.source.heartbeat import heartbeat_query, slot_lsn
from cdc.connect.source.sql.queries import read_sql

SOURCE = SourceSettings(host="db", dbname="shop", user="cdc", password="p", tables=["public.orders"])
STATEMENTS = [
    make_trigger_body("note_shapes", SOURCE),
    make_trigger_body("note_rewrite", SOURCE),
    make_function_body("shapes_now", SOURCE),
    heartbeat_query(SOURCE, "shop", slot=slot_lsn("slot")).as_string(),
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=["note_shapes", "note_rewrite", "shapes_now", "heartbeat"])
def test_no_part_of_a_statement_is_left_open(statement: str) -> None:
    assert re.findall(r"\{\w+\}", statement) == []


def test_a_file_is_read_without_the_comment_at_its_head() -> None:
    names = [file.name for file in files("cdc.connect.source.sql").iterdir() if file.name.endswith(".sql")]
    texts = [read_sql(name.removesuffix(".sql")).as_string() for name in names]
    assert texts
    assert not [text for text in texts if text.startswith(("--", "\n")) or not text]

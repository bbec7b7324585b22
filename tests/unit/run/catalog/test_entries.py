"""What a catalog is told of a table, and where a table's comments lie, without a catalog."""

import json
from dataclasses import replace
from pathlib import Path

from cdc.core.table import TableName
from cdc.run.catalog.comments import TableComments, describe, write_comments
from cdc.run.catalog.ddl import list_statements
from cdc.run.catalog.entry import make_entry
from cdc.sinks.lake.cloud_settings import AzureSettings, GoogleSettings
from cdc.sinks.lake.delta.log import DeltaLog
from cdc.sinks.lake.layout import Lake
from tests.support.histories import THINGS
from tests.support.lake.places import in_folder
from tests.support.lake.tables import apply, copy_rows, open_writer, read_by_delta_rs, row, update

COMMENTS = TableComments("it's all", {"big": 'a "text"', "gone": "of a column that is not there"})


def test_an_entry_has_another_shape_as_soon_as_anything_is_another() -> None:
    lake = Lake("/lakes/shop", "shop")
    entry = make_entry(lake, THINGS, COMMENTS, "shop_")
    assert (entry.place, entry.location) == (("shop_public", "things"), "file:/lakes/shop/public/things")
    assert [(c.name, c.type.simpleString(), c.comment) for c in entry.columns][1:] == [
        ("small", "int", ""),
        ("big", "string", 'a "text"'),
    ]
    others = [
        make_entry(lake, THINGS, TableComments(), "shop_"),
        make_entry(lake, THINGS, COMMENTS, "s_"),
        make_entry(Lake("/lakes/other", "shop"), THINGS, COMMENTS, "shop_"),
        make_entry(lake, replace(THINGS, columns=THINGS.columns[:2]), COMMENTS, "shop_"),
    ]
    assert len({each.shape for each in (entry, *others)}) == 5
    odd = make_entry(lake, replace(THINGS, name=TableName("My Shop", "a.b")), COMMENTS, "")
    assert odd.place == ("my_shop", "a_b")


def test_a_store_is_spelled_as_hadoop_does() -> None:
    azure = Lake("az://box/shop", "p", AzureSettings(account="ours").complete({}))
    assert make_entry(azure, THINGS, COMMENTS, "").location == (
        "abfss://box@ours.dfs.core.windows.net/shop/public/things"
    )
    google = Lake("gs://box", "p", GoogleSettings())
    assert make_entry(google, THINGS, COMMENTS, "").location == "gs://box/public/things"


def test_statements_are_quoted() -> None:
    entry = make_entry(Lake("/lakes/it's", "p"), THINGS, COMMENTS, "")
    assert [*list_statements([entry], "unity")] == [
        "CREATE SCHEMA IF NOT EXISTS `public`;",
        "CREATE TABLE IF NOT EXISTS `public`.`things` USING DELTA LOCATION 'file:/lakes/it\\'s/public/things'"
        " COMMENT 'it\\'s all';",
    ]
    _, table = list_statements([entry], "athena")
    assert table.startswith("CREATE EXTERNAL TABLE `public`.`things` LOCATION 'file:")
    assert table.endswith("/public/things/' TBLPROPERTIES ('table_type' = 'DELTA');")


def test_comments_are_in_the_log_once_and_the_writer_goes_on_behind_them(tmp_path: Path) -> None:
    lake = in_folder(tmp_path)
    copy_rows(lake, THINGS, [row(n, "old") for n in range(3)])
    writer = open_writer(lake)
    log = DeltaLog.open(lake.table_storage(THINGS.name))
    assert log is not None
    version = log.snapshot.version
    assert write_comments(log, COMMENTS)
    assert write_comments(log, COMMENTS)
    assert log.snapshot.version == version + 1
    assert log.snapshot.metadata is not None
    assert log.snapshot.metadata.description == "it's all"
    fields = json.loads(log.snapshot.schema_string or "")["fields"]
    assert [field["metadata"] for field in fields] == [{}, {}, {"comment": 'a "text"'}]
    # one that has not seen them meets their version, and commits behind it
    apply(writer, update(1, row(1, "new")), 1)
    assert read_by_delta_rs(lake)[1]["big"] == "new"
    assert not write_comments(log, TableComments())
    log.refresh()
    assert write_comments(log, TableComments())
    assert describe(log.snapshot.metadata, TableComments()) is None

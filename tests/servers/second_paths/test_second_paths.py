"""Every feature after everything that may happen to it: the table of `cells.py`, on real servers.

One pipeline goes through all of it, in a folder whose path has a blank. After each event every feature is asked.
"""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from cdc.core.table import TableName
from cdc.log.names import change_topic
from tests.servers.second_paths.everything import DERIVED, HISTORY, ORDERS, Everything, add_everything, make_plain
from tests.support.cdc_inprocess import following, recapture_all
from tests.support.further import further
from tests.support.kafka_partitions import add_partitions
from tests.support.pipelines import MakePipeline

pytestmark = [pytest.mark.timeout(1200), pytest.mark.further]


@pytest.fixture(scope="module")
def followed(
    make_shared_pipeline: MakePipeline, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Everything]:
    """All features, which have joined a running pipeline of one table."""
    made = Everything(make_plain(make_shared_pipeline), spark, tmp_path_factory.mktemp("streams"))
    with pytest.MonkeyPatch.context() as patched:
        for name, value in made.pipeline.environ.items():
            patched.setenv(name, value)
        made.bootstrap()
        made.write()
        add_everything(made.pipeline)
        made.bootstrap()
        yield made


def rest(all: Everything) -> None:
    """Nobody follows while much is written; and a table has stopped meanwhile, for a value that does not fit."""
    for _ in range(3):
        all.write()
    all.pipeline.run("TRUNCATE events", "INSERT INTO events VALUES (1, 'again', now())")


def stop_and_mend(all: Everything) -> None:
    """A table stops, rests, and joins again."""
    with following(all.pipeline, all.spark) as running:
        all.pipeline.run("ALTER TABLE events DROP CONSTRAINT events_pkey", "INSERT INTO events VALUES (-1, 'x', now())")
        running.wait_for("public.events is followed no further than")
    all.write()
    all.pipeline.run("ALTER TABLE events ADD PRIMARY KEY (id)")


def copy_again(all: Everything) -> None:
    all.bootstrap(ORDERS)


def recapture(all: Everything) -> None:
    recapture_all(all.pipeline, all.spark)


def change_columns(all: Everything) -> None:
    """A column comes, one is renamed, one goes and comes again at the end: the order changes, too."""
    all.pipeline.run(
        "ALTER TABLE orders ADD COLUMN kind text DEFAULT 'old'",
        "UPDATE orders SET kind = 'new' WHERE id % 2 = 0",
        "ALTER TABLE orders RENAME kind TO sort",
        "ALTER TABLE events DROP COLUMN page",
        "ALTER TABLE events ADD COLUMN page text",
    )


def change_types(all: Everything) -> None:
    all.pipeline.run(
        "ALTER TABLE orders ALTER n TYPE bigint",
        "UPDATE orders SET n = n + 3000000000 WHERE id % 13 = 1",
        "ALTER TABLE customers ALTER name TYPE varchar(200)",
    )


def change_key(all: Everything) -> None:
    all.pipeline.run(
        "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
        "ALTER TABLE orders ALTER id TYPE bigint",
        "ALTER TABLE orders ADD PRIMARY KEY (id)",
    )


def grow_topics(all: Everything) -> None:
    add_partitions(all.pipeline, change_topic(all.pipeline.settings.log.prefix, TableName.parse(ORDERS)), 5)


def rename_in_the_file(all: Everything) -> None:
    """A view gets another name, which is another view; what has held the old one holds the new one."""
    text = all.pipeline.config.read_text()
    new = "shop.cards" if "shop.card:" in text else "shop.card"
    old = "shop.card" if new == "shop.cards" else "shop.cards"
    all.pipeline.config.write_text(text.replace(f"{old}:", f"{new}:").replace(f" {old}]", f" {new}]"))
    all.bootstrap()


def take_out_and_put_back(all: Everything) -> None:
    """All of it leaves the file for a while, in which the tables change."""
    whole = all.pipeline.config.read_text()
    without = whole.replace(f"    - {ORDERS}\n", "").replace(HISTORY, "").replace(DERIVED, "")
    all.pipeline.config.write_text(drop_follower_lists(without))
    all.bootstrap()
    all.write()
    all.pipeline.config.write_text(whole)
    all.bootstrap()


def drop_follower_lists(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if ORDERS not in line)


HAPPENED: tuple[Callable[[Everything], None], ...] = (
    rest,
    change_columns,
    copy_again,
    change_types,
    change_key,
    take_out_and_put_back,
)


@pytest.mark.parametrize(
    "happen",
    [
        *HAPPENED,
        further("stop_and_mend", stop_and_mend),
        further("grow_topics", grow_topics),
        further("rename_in_the_file", rename_in_the_file),
        further("recapture", recapture),
    ],
)
def test_every_feature_holds_after(followed: Everything, quicker: None, happen: Callable[[Everything], None]) -> None:
    happen(followed)
    followed.check()

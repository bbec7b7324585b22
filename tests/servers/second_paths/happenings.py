"""What may happen to a pipeline of every feature; each may happen again and again."""

import re
from collections.abc import Callable

from cdc.connect.capture.connect_client import ConnectClient
from cdc.core.table import TableName
from cdc.log.names import change_topic
from tests.servers.second_paths.everything import EVENTS, FURTHER, HISTORY, ORDERS, Everything, add_everything
from tests.support.cdc_inprocess import following, recapture_all
from tests.support.parts.kafka_partitions import add_partitions
from tests.support.parts.pipelines import without_followers


def join_later(all: Everything) -> None:
    """All features join a running pipeline of one table."""
    add_everything(all.pipeline)
    all.bootstrap()


def rest(all: Everything) -> None:
    """Nobody follows while much is written, and a table is truncated."""
    for _ in range(3):
        all.write()
    all.pipeline.run("TRUNCATE events", "INSERT INTO events (id, page, at) VALUES (1, 'again', now())")


def stop_and_mend(all: Everything) -> None:
    """A table stops, rests, and joins again."""
    with following(all.pipeline, all.spark) as running:
        all.pipeline.run(
            "ALTER TABLE events DROP CONSTRAINT events_pkey", "INSERT INTO events (id, at) VALUES (-1, now())"
        )
        running.wait_for("public.events is followed no further than")
    all.write(with_events=False)
    all.pipeline.run("ALTER TABLE events ADD PRIMARY KEY (id)")


def copy_again(all: Everything) -> None:
    all.bootstrap(*FURTHER)


def recapture(all: Everything) -> None:
    recapture_all(all.pipeline, all.spark)


def add_column(all: Everything) -> None:
    n = next(all.numbers)
    all.pipeline.run(
        f"ALTER TABLE orders ADD COLUMN added{n} text DEFAULT 'old'",
        f"UPDATE orders SET added{n} = 'new' WHERE id % 2 = 0",
        f"ALTER TABLE events ADD COLUMN added{n} int",
    )


def drop_column(all: Everything) -> None:
    """A column goes, and comes again at the end: the order changes, too."""
    all.pipeline.run(
        "ALTER TABLE orders DROP COLUMN note",
        "ALTER TABLE orders ADD COLUMN note text",
        "ALTER TABLE events DROP COLUMN page",
        "ALTER TABLE events ADD COLUMN page text",
    )


def rename_column(all: Everything) -> None:
    old, new = all.turn("kind", "sort")
    all.pipeline.run(f"ALTER TABLE orders RENAME {old} TO {new}", f"ALTER TABLE events RENAME {old} TO {new}")


def change_type(all: Everything) -> None:
    _, new = all.turn("int", "bigint")
    all.pipeline.run(f"ALTER TABLE orders ALTER n TYPE {new}", f"ALTER TABLE events ALTER size TYPE {new}")


def change_key(all: Everything) -> None:
    _, new = all.turn("id", "id, at")
    for table in ("orders", "events"):
        all.pipeline.run(
            f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey", f"ALTER TABLE {table} ADD PRIMARY KEY ({new})"
        )


def grow_topics(all: Everything) -> None:
    all.partitions += 1
    for name in (ORDERS, EVENTS):
        add_partitions(
            all.pipeline, change_topic(all.pipeline.settings.log.prefix, TableName.parse(name)), all.partitions
        )


def rename_in_the_file(all: Everything) -> None:
    """A table and the views get other names; what has held the old ones holds the new ones."""
    old, new = all.rename_customers()
    all.pipeline.run(f"ALTER TABLE {old} RENAME TO {new}")
    view, other = all.turn("shop.card", "shop.cards")
    windows, others = all.turn("shop.minutes", "shop.sizes")
    text = all.pipeline.config.read_text()
    for before, after in ((f"public.{old}", f"public.{new}"), (f" {old} c ", f" {new} c "), (windows, others)):
        assert before in text
        text = text.replace(before, after)
    text = re.sub(rf"{re.escape(view)}\b", other, text)
    all.pipeline.config.write_text(text)
    all.bootstrap()


def take_out_and_put_back(all: Everything) -> None:
    """All of it leaves the file for a while, in which the tables change and are followed."""
    whole = all.pipeline.config.read_text()
    text = re.sub(r"^views:.*?(?=^followers:)", "", whole, flags=re.MULTILINE | re.DOTALL)
    lines = without_followers(text.replace(HISTORY, ""), "alerts").splitlines(keepends=True)
    all.pipeline.config.write_text("".join(line for line in lines if not any(name in line for name in FURTHER)))
    all.bootstrap()
    all.write()
    with following(all.pipeline, all.spark):
        all.wait("search")
    all.pipeline.config.write_text(whole)
    all.bootstrap()


def take_away_our_jar(all: Everything) -> None:
    """Connect has classes of Debezium only, and the connector is configured without ours; or they come back."""
    extensions = ConnectClient.extensions

    def list_foreign(client: ConnectClient) -> set[str]:
        return {name for name in extensions(client) if not name.startswith("cdc.connect.")}

    _, now = all.turn("with", "without")
    if now == "with":
        all.without_jar.undo()
    else:
        all.without_jar.setattr(ConnectClient, "extensions", list_foreign)
    all.bootstrap()


HAPPENINGS: dict[str, Callable[[Everything], None]] = {
    each.__name__: each
    for each in (
        join_later,
        rest,
        recapture,
        copy_again,
        add_column,
        drop_column,
        rename_column,
        change_type,
        change_key,
        grow_topics,
        rename_in_the_file,
        take_out_and_put_back,
        take_away_our_jar,
    )
}

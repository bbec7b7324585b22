"""A batch of one table's changes in, its net effect a key out: `cdc.core.collapse` on columns.

A key's changes fall into lives, each beginning with a create. Only the last life of a key counts; an older one
matters when its row went on under another key without its TOAST values having been sent.
"""

from pyspark.sql import Column as Col
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc.columns.names import Changes, Net, within
from cdc.columns.spark_types import TOASTABLE, key_type, row_type
from cdc.core.table import Table

_SEQ, _LIFE, _FIRST, _LAST = "seq", "life", "first", "last"


def collapse(changes: DataFrame, table: Table, *, moves: bool) -> DataFrame:
    """Fold `Changes` (ranked, without TRUNCATE and what it took away) into `Net`.

    `moves` says whether some create has a `moved_from` and unsent values: only then older lives are looked at.
    """
    lives = _lives(changes, table)
    if moves:
        lives = _inherited(lives.localCheckpoint(), table)
    newest = Window.partitionBy(Net.KEY)
    return (
        lives.select("*", (F.max(_LIFE).over(newest) == F.col(_LIFE)).alias("newest"))
        .select("*", (F.min(_LIFE).over(newest) == 0).alias(Net.EXISTED))
        .where("newest")
        .select(*(F.col(name) for name in Net))
    )


def _lives(changes: DataFrame, table: Table) -> DataFrame:
    ordered = Window.partitionBy(Changes.KEY).orderBy(_SEQ)
    seq = F.struct(F.col(Changes.RANK), F.col(Changes.TOTAL_ORDER))
    numbered = changes.select("*", seq.alias(_SEQ)).select(
        "*", F.sum(F.when(F.col(Changes.OP) == "c", 1).otherwise(0)).over(ordered).alias(_LIFE)
    )
    has_row = F.col(Changes.OP) != "d"
    grouped = numbered.groupBy(Changes.KEY, _LIFE).agg(
        F.max_by(F.col(Changes.ROW), F.when(has_row, F.col(_SEQ))).alias("latest"),
        F.max_by(F.col(Changes.OP), F.col(_SEQ)).alias("last_op"),
        F.min_by(F.col(Changes.MOVED_FROM), F.col(_SEQ)).alias(Changes.MOVED_FROM),
        F.min(_SEQ).alias(_FIRST),
        F.max(_SEQ).alias(_LAST),
        *(_latest_sent(name).alias(_sent_alias(n)) for n, name in enumerate(_toastable(table))),
    )
    return grouped.select(*_life_columns(table))


def _latest_sent(name: str) -> Col:
    sent = (F.col(Changes.OP) != "d") & ~F.array_contains(F.col(Changes.UNSENT), name)
    return F.max_by(F.struct(within(Changes.ROW, name).alias("value")), F.when(sent, F.col(_SEQ)))


def _life_columns(table: Table) -> list[Col]:
    toastable = {name: n for n, name in enumerate(_toastable(table))}
    fields = [
        (F.col(_sent_alias(toastable[c])).getField("value") if c in toastable else within("latest", c)).alias(c)
        for c in table.column_names
    ]
    missing = [F.when(F.col(_sent_alias(n)).isNull(), F.lit(name)) for name, n in toastable.items()]
    return [
        F.col(Net.KEY),
        F.col(_LIFE),
        F.struct(*fields).cast(row_type(table)).alias(Net.ROW),
        (F.col("last_op") == "d").alias(Net.REMOVED),
        F.array_compact(F.array(*missing)).cast("array<string>").alias(Net.UNSENT),
        F.when(F.col(_LIFE) == 0, F.col(Net.KEY)).cast(key_type(table)).alias(Net.BASE),
        F.when(F.col(_LIFE) > 0, F.col(Changes.MOVED_FROM)).alias(Changes.MOVED_FROM),
        F.col(_FIRST),
        F.col(_LAST),
    ]


def _inherited(lives: DataFrame, table: Table) -> DataFrame:
    """Follow every moved row with unsent values back to the life that it had under its former key."""
    while True:
        waiting = F.col(Changes.MOVED_FROM).isNotNull() & (F.size(Net.UNSENT) > 0)
        if lives.where(waiting).isEmpty():
            return lives
        lives = _one_move_back(lives, table).localCheckpoint()


def _one_move_back(lives: DataFrame, table: Table) -> DataFrame:
    former = lives.select(*(F.col(name).alias(f"former_{name}") for name in lives.columns))
    just_before = F.struct(F.col("first.rank").alias("rank"), (F.col("first.total_order") - 1).alias("total_order"))
    ended_by_the_move = (F.col(Changes.MOVED_FROM) == F.col("former_key")) & (F.col("former_last") == just_before)
    joined = lives.join(former, ended_by_the_move & (F.size(Net.UNSENT) > 0), "left")
    inherits = F.col("former_key").isNotNull()
    fields = [
        F.when(inherits & F.array_contains(F.col(Net.UNSENT), c), within("former_row", c))
        .otherwise(within(Net.ROW, c))
        .alias(c)
        for c in table.column_names
    ]
    replaced = {
        Net.ROW: F.struct(*fields).cast(row_type(table)),
        Net.UNSENT: F.when(inherits, F.array_intersect(Net.UNSENT, "former_unsent")).otherwise(F.col(Net.UNSENT)),
        Net.BASE: F.when(inherits, F.col("former_base")).otherwise(_base_outside(table)),
        Changes.MOVED_FROM: F.when(inherits, F.col("former_moved_from")),
        _FIRST: F.when(inherits, F.col("former_first")).otherwise(F.col(_FIRST)),
    }
    return joined.select(*(replaced.get(name, F.col(name)).alias(name) for name in lives.columns))


def _base_outside(table: Table) -> Col:
    """No delete of the former key in the batch: its row from before the batch, if the row was moved at all."""
    return F.coalesce(F.col(Net.BASE), F.col(Changes.MOVED_FROM)).cast(key_type(table))


def _toastable(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.kind in TOASTABLE and c.name not in table.key]


def _sent_alias(number: int) -> str:
    return f"sent_{number}"

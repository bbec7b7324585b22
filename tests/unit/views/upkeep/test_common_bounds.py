"""What a step may take is one for all tables: however many change, it takes no more."""

from pathlib import Path
from typing import Final

from cdc.core.table import Column, Kind, Table, TableName
from cdc.sinks.lake import layout
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.sinks.lake.table.lookup import TableLookup
from cdc.views.definition import ViewDefinition
from cdc.views.upkeep.table_steps import Bounds
from tests.support.views.kept import Kept, KeptWithoutSpark

COLUMNS: Final = (Column("id", Kind.INTEGER), Column("name", Kind.TEXT))
TABLES: Final = [Table(TableName("public", f"t{number}"), COLUMNS, ("id",)) for number in range(3)]
VIEWS: Final = [
    ViewDefinition.of(f"sales.{table.name.table}", f"SELECT id, name FROM {table.name.table}", ["id"])
    for table in TABLES
]


def put_everywhere(kept: Kept, *keys: int, name: str) -> Cut:
    for table in TABLES:
        for key in keys:
            kept.source.put(table.name.table, {"id": key, "name": name})
    return kept.source.cut()


def measure_most(kept: Kept, since: Cut, until: Cut) -> int:
    """Of the changes of one table, those of the one with the most."""
    measured = list[int]()
    for table in TABLES:
        storage = kept.source.lake.table_storage(table.name)
        log = layout.open_owned_log(kept.source.lake, table.name, since.versions[str(table.name)])
        assert log
        lookup = TableLookup(table, storage, log, kept.place / "measured")
        measured.append(lookup.measure_changes(until.versions[str(table.name)]))
    return max(measured)


def test_tables_whose_changes_are_few_each_are_many_together(tmp_path: Path) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, VIEWS)
    first = kept.keeper.bring(put_everywhere(kept, *range(4), name="a"))
    kept.keeper.save()
    cuts = [put_everywhere(kept, number % 4, name=f"at {number}") for number in range(6)]
    kept.restart(bounds=Bounds(slice_bytes=measure_most(kept, first, cuts[-1])))
    reached = [kept.keeper.advance(cuts[-1])]
    while not reached[-1].position.covers(cuts[-1].position):
        reached.append(kept.keeper.advance(cuts[-1]))
    # a third of them at once, or less where rows turn out to take more in memory than in files
    assert reached[0].position == cuts[1].position
    assert len(reached) >= 3
    assert not [*kept.differences(reached[-1])]


def test_tables_for_whose_changes_there_is_no_room_have_their_views_computed_as_a_whole(tmp_path: Path) -> None:
    kept = KeptWithoutSpark(tmp_path, TABLES, VIEWS)
    kept.keeper.bring(put_everywhere(kept, *range(20), name="a"))
    kept.keeper.save()
    # little in files, and more than all that there is room for in memory, of each table
    cut = put_everywhere(kept, *range(20), name="b" * 10_000)
    kept.restart(bounds=Bounds(changed_bytes=100_000))
    reached = kept.keeper.bring(cut)
    assert {*reached.whole} == {"sales.t1", "sales.t2"}
    assert not [*kept.differences(reached)]

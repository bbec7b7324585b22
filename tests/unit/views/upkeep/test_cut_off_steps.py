"""A process that ends between the views' commits and their cut: no cut shows rows of a later one."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cdc.core import fail_points
from cdc.sinks.lake.metadata.cuts import Cut
from cdc.views.definition import ViewDefinition
from cdc.views.spark import whole
from cdc.views.upkeep.table_steps import Bounds
from tests.support.model import Row
from tests.support.views.kept import KeptWithoutSpark
from tests.support.views.sales import CUSTOMERS, put_customers

COPIED = ViewDefinition.of("sales.copied", "SELECT id, name FROM customers", ["id"])
NARROW = Bounds(slice_bytes=1)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptWithoutSpark]:
    yield KeptWithoutSpark(tmp_path, [CUSTOMERS], [COPIED])
    fail_points.arm("")


def change(kept: KeptWithoutSpark, random: Random, shown: dict[int, list[Row]]) -> Cut:
    """A cut; what the view is there is among `shown`, by the cut's offset."""
    for _ in range(3):
        put_customers(kept, random.randrange(9), name=f"at {random.random()}")
    cut = kept.source.cut()
    shown[cut.position.end_offset] = sorted(kept.source.rows["customers"].values(), key=lambda row: str(row["id"]))
    return cut


@pytest.mark.parametrize("is_whole", [False, True], ids=["by keys", "as a whole"])
def test_the_next_process_goes_on_at_the_cut_that_views_have_rows_of(
    kept: KeptWithoutSpark, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """Though its steps are shorter: the cuts before it would show what came later."""
    random, shown = Random(7), dict[int, list[Row]]()
    first = kept.keeper.bring(change(kept, random, shown))
    kept.keeper.save()
    if is_whole:
        # the files of a view are replaced then
        monkeypatch.setattr(whole, "MAX_COMPARED_ROWS", -1)
        kept.restart(bounds=Bounds(changed_bytes=0))
    for _ in range(5):
        begun = change(kept, random, shown)
    fail_points.arm("views.cut.before:raise")
    with pytest.raises(fail_points.FailPointError):
        kept.keeper.advance(begun)
    fail_points.arm("")
    for _ in range(3):
        newest = change(kept, random, shown)
    kept.restart(bounds=NARROW)
    reached, steps = first, list[int]()
    while not reached.position.covers(newest.position):
        reached = kept.keeper.advance(newest)
        steps.append(reached.position.end_offset)
        assert kept.rows(COPIED, reached) == shown[reached.position.end_offset]
        assert not reached.as_of
    # to where the other one was at once, and cut by cut from there
    assert steps == [offset for offset in shown if offset >= begun.position.end_offset]

"""A table that was put back while nobody kept the views up: its versions have other rows than those of before."""

import shutil
from pathlib import Path

from tests.support.lake.damage import back_up
from tests.support.views.kept import KeptWithoutSpark
from tests.support.views.sales import COUNTS, CUSTOMERS, NAMES, TABLES, put_customers


def put_back(folder: Path, backup: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def test_views_start_anew_from_a_table_that_another_one_has_replaced(tmp_path: Path) -> None:
    """Which has the same versions by now: their changes lead from rows that no view has."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    folder = kept.source.lake.disk(CUSTOMERS.name)
    backup = back_up(folder, tmp_path / "backup")
    for number in range(5):
        put_customers(kept, number, name="before")
        first = kept.keeper.bring(kept.source.cut())
    kept.keeper.save()
    put_back(folder, backup)
    kept.source.rows["customers"] = {(number,): {"id": number, "name": "after"} for number in (0, 7)}
    kept.source.copy(CUSTOMERS, anew=True)
    for number in range(8, 14):
        put_customers(kept, number, name="after")
        newest = kept.source.cut()
    assert newest.versions["public.customers"] > first.versions["public.customers"]
    assert newest.ids["public.customers"] != first.ids["public.customers"]
    kept.restart()
    assert not [*kept.differences(kept.keeper.bring(newest))]


def test_views_start_anew_from_a_table_that_was_put_back_and_written_again(tmp_path: Path) -> None:
    """Under the same id: commits tell."""
    kept = KeptWithoutSpark(tmp_path, TABLES, [NAMES, COUNTS])
    folder = kept.source.lake.disk(CUSTOMERS.name)
    for number in range(5):
        put_customers(kept, number, name="before")
        first = kept.keeper.bring(kept.source.cut())
        if number == 2:
            backup = back_up(folder, tmp_path / "backup")
    kept.keeper.save()
    put_back(folder, backup)
    for number in (3, 4):
        del kept.source.rows["customers"][(number,)]
    kept.source.reopen(CUSTOMERS)
    for number in range(8, 14):
        put_customers(kept, number, name="after")
        newest = kept.source.cut()
    assert newest.versions["public.customers"] > first.versions["public.customers"]
    assert newest.ids["public.customers"] == first.ids["public.customers"]
    kept.restart()
    assert not [*kept.differences(kept.keeper.bring(newest))]

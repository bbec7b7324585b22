"""What outlives a restart, and a file that is missing, damaged, of another version, or cannot be written."""

import json
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from cdc.run.status.document import Document, decode
from cdc.serve.history import History
from tests.support.serve.samples import healthy

DOCUMENT = decode(json.dumps(healthy()))


def after(hours: float, p50: float) -> Document:
    lake = replace(DOCUMENT.followers["lake"], p50_seconds=p50)
    return replace(DOCUMENT, at=DOCUMENT.at + timedelta(hours=hours), followers={"lake": lake})


def test_a_day_has_the_mean_of_each_hour_also_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "shop.sqlite"
    with History(path) as history:
        assert history.previous is None
        for hours, p50 in ((0, 1.0), (0.1, 3.0), (1, 5.0), (3, 7.0)):
            made = history.add(after(hours, p50))
    assert made.followers["lake"].day == [2.0, 5.0, 0.0, 7.0]
    with History(path) as again:
        assert again.previous == made
        assert again.previous.series == DOCUMENT.series
        assert again.add(after(3.1, 9.0)).followers["lake"].day == [2.0, 5.0, 0.0, 8.0]
        # what is older than a day goes
        assert again.add(after(25, 4.0)).followers["lake"].day[0] == 8.0
        assert len(again.add(after(40, 4.0)).followers["lake"].day) <= 24


def test_a_table_that_does_not_change_has_no_row(tmp_path: Path) -> None:
    quiet = replace(DOCUMENT.tables["public.orders"], changes_per_minute=0.0)
    path = tmp_path / "shop.sqlite"
    with History(path) as history:
        history.add(replace(DOCUMENT, tables={"public.orders": quiet, "public.busy": DOCUMENT.tables["public.orders"]}))
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT name FROM hours WHERE kind = 'tables'").fetchall() == [("public.busy",)]


@pytest.mark.parametrize("damage", ["no database", "cut", "other columns", "other document", "a folder"])
def test_a_damaged_file_costs_the_past_and_nothing_else(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with History(path) as history:
        history.add(DOCUMENT)
    if damage == "no database":
        path.write_bytes(b"x" * 5000)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "a folder":
        path.unlink()
        (path / "something").mkdir(parents=True)
    else:
        with sqlite3.connect(path) as file:
            file.execute("UPDATE document SET json = '{}'" if damage == "other document" else "DROP TABLE hours")
            if damage == "other columns":
                file.execute("CREATE TABLE hours (other TEXT)")
    with History(path) as history:
        assert history.previous is None or damage == "other columns"
        assert history.add(after(1, 2.0)).followers["lake"].day


def test_a_file_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with History(tmp_path / "file" / "shop.sqlite") as history:
        assert history.previous is None
        assert history.add(DOCUMENT).followers["lake"].day
    path = tmp_path / "shop.sqlite"
    with History(path) as history, sqlite3.connect(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert history.add(DOCUMENT).followers["lake"].day

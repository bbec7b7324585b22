"""The report holds what was measured, wins and losses alike."""

from pathlib import Path

import pytest

from tests.bench.pairing import interleaved
from tests.bench.record import Run, recorded, write
from tests.bench.report import markdown, numbers
from tests.unit.bench.a_goal import ABOUT, GOAL, Told


def ran(times: list[float]) -> list[Run]:
    return [*interleaved(GOAL, GOAL.sides, Told(times), range(2), lambda text: None)]


def test_numbers_have_three_digits() -> None:
    values = [0.0, 0.1234, 1.234, 12.34, 123.4, 12345.6, 3.0]
    assert [numbers.number(value) for value in values] == ["0", "0.123", "1.23", "12.3", "123", "12,346", "3"]


def test_the_table_says_met_and_missed() -> None:
    runs = ran([1.0, 1.5, 3.0, -1.0])
    text = markdown.summary([recorded(GOAL, "full", {"rows": 1}, ABOUT, runs)])
    assert "| told | full scale, 2 pairs | ours: time ≤ 2 s | 2 [1 … 3] | stock 1.50 | met |" in text
    assert (
        "| told | full scale, 2 pairs | ours: time ≤ 0.5 of stock | 0.667 | ours 2 [1 … 3]; stock 1.50 | missed |"
        in text
    )
    assert "- pair 2, stock: failed: it fell over" in text


def test_the_page_stands_alone(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the bench group is not installed")
    from tests.bench.report.page import write_report

    runs = ran([1.0, 1.5, 3.0, 4.0])
    write(recorded(GOAL, "small", {"rows": 1}, ABOUT, runs), tmp_path)
    page = write_report(tmp_path, ["missing", GOAL.name]).read_text()
    assert page.count("<svg") == 6
    assert "limit 2" in page
    assert not any(word in page for word in ("<script", "src=", "<link"))

"""Figures as values: what is drawn is in the file, at places in the order of time or offsets."""

import re

from cdc.lab.figures.canvas import Tone
from cdc.lab.figures.curves import Curves
from cdc.lab.figures.log import Cell, LogFigure, ReaderMark
from cdc.lab.figures.timeline import Arrow, Event, Span, Timeline
from cdc.lab.figures.windows import Window, WindowFigure, place_in_rows
from cdc.lab.lesson import Figure


def texts(figure: Figure) -> dict[str, float]:
    """The texts of a figure, each with its x."""
    found = re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>([^<]*)</text>', figure.draw())
    return {text: float(x) for x, text in found}


def test_a_timeline_has_lanes_and_goes_to_the_right() -> None:
    figure = Timeline(
        "What happens",
        ("one", "two"),
        events=(Event("two", 900, "end", lost=True),),
        spans=(Span("one", 100, 400, "busy", Tone.BAD),),
        arrows=(Arrow("one", 400, "two", 700, "sends"),),
    )
    found = texts(figure)
    assert found["busy"] < found["sends"] < found["end"]
    assert {"What happens", "one", "two", "800 ms"} <= found.keys()


def test_a_timeline_of_one_moment_is_drawn() -> None:
    assert "now" in texts(Timeline("t", ("one",), events=(Event("one", 5.0, "now"),)))


def test_a_label_at_the_end_stays_on_the_paper() -> None:
    found = texts(Timeline("t", ("one",), events=(Event("one", 0), Event("one", 9, "end"), Event("one", 9, "x" * 40))))
    assert found["x" * 40] < found["end"]


def test_a_span_too_short_for_its_label_has_it_above() -> None:
    short = Timeline("t", ("one",), spans=(Span("one", 0, 1, "a long label"), Span("one", 0, 1_000)))
    [height] = re.findall(r'y="([\d.]+)"[^>]*>a long label', short.draw())
    [long] = re.findall(
        r'y="([\d.]+)"[^>]*>a long label', Timeline("t", ("one",), spans=(Span("one", 0, 1, "a long label"),)).draw()
    )
    assert float(height) < float(long)


def test_a_log_has_offsets_and_readers_below_them() -> None:
    cells = tuple(Cell(offset, f"m{offset}") for offset in range(10, 16))
    found = texts(LogFigure("A log", {"p0": cells}, {"p0": (ReaderMark("slow", 11), ReaderMark("quick", 16))}))
    assert found["10"] == found["m10"] < found["11"] < found["slow"] < found["12"]
    # behind the last message
    assert found["quick"] > found["15"]


def test_curves_name_their_highest_and_their_last() -> None:
    found = texts(Curves("Growth", {"up": ((0, 0), (2, 30)), "flat": ((0, 1), (1, 1))}, "s", "waiting"))
    assert {"Growth", "up", "flat", "30", "2 s", "waiting"} <= found.keys()


def test_windows_that_overlap_lie_in_rows_of_their_own() -> None:
    hopping = tuple(Window(start, start + 10, str(start)) for start in (0, 5, 10, 15))
    assert place_in_rows(hopping) == [0, 1, 0, 1]
    tumbling = tuple(Window(start, start + 10, f"t{start}") for start in (0, 10))
    assert place_in_rows(tumbling) == [0, 0]
    kinds = {"tumbling": tumbling, "hopping": hopping}
    found = texts(WindowFigure("Windows", (1, 4, 12), kinds, "min"))
    assert {"Windows", "tumbling", "hopping", "25 min"} <= found.keys()
    assert found["t0"] < found["t10"]
    assert found["0"] < found["5"] < found["10"] < found["15"]

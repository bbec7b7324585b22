"""`cdc top`: a screen of the status document, and lines where there is no terminal."""

import io
import signal
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from cdc.cli.verbs.top import draw, identify_verdict
from cdc.config.init import TemplateValues, template
from cdc.run.status.document import Document, StatusProblem, StatusVerdict, Subject
from cdc.run.status.things import Level, State, TableStatus
from tests.support.parts.ports import free_port
from tests.unit.cli.test_status_output import NOW, document, follower

STOPPED = StatusProblem(
    level=Level.NOW,
    subject=Subject(kind="table", name="public.t7"),
    what="public.t7 is stopped",
    why="public.t7 is followed no further: [bold] is no markup",
    remedy="copy it again",
)


def many() -> Document:
    tables = {f"public.t{n}": TableStatus(rows=1000 * n, changes_per_minute=float(n)) for n in range(2000)}
    tables["public.t7"] = TableStatus(state=State.STOPPED, reason="its key was dropped")
    verdict = StatusVerdict(level=Level.NOW, title="public.t7 is stopped")
    problems = {f"table.stopped:{n}": STOPPED for n in range(9)}
    behind = follower(State.BEHIND, "behind by 10 min", behind_seconds=602.0, changes_waiting=7, is_caught_up=False)
    shown = document({"lake": follower(p50_seconds=1.4), "search": behind}, tables, verdict=verdict)
    return replace(shown, problems=problems)


def drawn(shown: Document, height: int, width: int = 110) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(draw(shown, height, NOW + 3))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_screen_has_what_needs_somebody_first_and_fits() -> None:
    lines = drawn(many(), 40)
    assert lines[0] == "NOW: public.t7 is stopped"
    assert lines[1] == "shop, 22:13:20 UTC, looked 3 s ago in 0 ms"
    assert len(lines) <= 40
    tables = next(n for n, line in enumerate(lines) if line.startswith("table"))
    assert lines[tables + 1].split()[0] == "public.t7"
    assert lines[tables + 1].endswith("its key was dropped")
    # then the busiest
    assert lines[tables + 2].split()[:2] == ["public.t1999", "1,999,000"]
    assert any("and 1,9" in line and line.endswith("more") for line in lines)
    assert [line for line in lines if line.startswith("! ")] == [f"! {STOPPED}"] * 5
    assert any(line.startswith("lake") and "1.4 s" in line for line in lines)
    assert any(line.startswith("search") and "602.0" in line for line in lines)


def test_a_low_screen_still_has_verdict_and_some_tables() -> None:
    lines = drawn(many(), 10, width=60)
    assert lines[0] == "NOW: public.t7 is stopped"
    assert sum(line.startswith("public.t") for line in lines) == 5


def test_a_verdict_is_another_one_by_what_it_says_and_not_by_its_numbers() -> None:
    def of(title: str, detail: str = "") -> tuple[object, ...]:
        verdict = StatusVerdict(level=Level.TODAY, title=title, detail=detail)
        return identify_verdict(replace(many(), verdict=verdict))

    assert of("search is behind by 119 s", "Changes take 1.4 s.") == of("search is behind by 2 h 5 min", "1.5 s.")
    assert of("search is behind by 2 min") != of("latest is behind by 2 min")


def test_without_a_terminal_it_prints_each_new_verdict_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    values = TemplateValues(port=free_port(), password="p", bootstrap=f"localhost:{free_port()}")
    text = template(values).replace(":8083", f":{free_port()}").replace(":9200", f":{free_port()}")
    (tmp_path / "cdc.yaml").write_text(text)
    command = [sys.executable, "-m", "cdc", "--config", str(tmp_path / "cdc.yaml"), "top"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, said = running.communicate()
    assert "NOW: Postgres shop does not answer" in line
    assert (running.returncode, said) == (130, "interrupted\n")

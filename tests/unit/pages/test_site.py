"""What is on the documentation site: pages, and the files that they link to; a link that leads nowhere is told."""

import re
from pathlib import Path

import markdown
import pytest

from tests.site import __main__ as site
from tests.site.pipes import Pipes


def test_pages_are_on_the_site_with_what_they_link_to() -> None:
    found = {path.as_posix() for path in site.list_published(site.list_files())}
    assert {"README.md", "docs/START.md", "docs/pictures/path.svg", "sinks/lake/README.md", "cdc/views/plan.py"} < found
    assert "cdc/views/small.py" not in found
    assert not any(name.startswith("cdc/sinks/") for name in found)


def test_the_list_of_pages_names_pages() -> None:
    named = re.findall(r"[\w./]+\.md$", (site.ROOT / site.NAV).read_text(), re.MULTILINE)
    assert len(named) > 20
    assert {*map(Path, named)} <= site.list_published(site.list_files())


def test_a_link_that_leads_nowhere_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "[a](lost.md#part), [b](https://example.org), [c](#here)\n```\n[d](code.md)\n```\n"
    )
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "list_files", lambda: {Path("README.md")})
    with pytest.raises(SystemExit, match=r"what is not there: lost\.md$"):
        site.build()


def test_a_pipe_in_the_code_of_a_table_is_shown_alone() -> None:
    written = "| verb |\n|---|\n| `a\\|b` |\n"
    assert "<code>a|b</code>" in markdown.markdown(written, extensions=["tables", Pipes()])

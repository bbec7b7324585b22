"""Tables are added to a file and taken out of it: its other lines stay, and a wrong file is never written."""

from pathlib import Path

import pytest

from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.table_edit import add_tables, remove_tables
from cdc.core.errors import ConfigurationError, RefusedError

ENVIRON = {"CDC_TEST_PASSWORD": "p"}
TEXT = """# a file of somebody's
version: 1
pipeline: {name: shop}
source:
  host: h   # the leader
  dbname: d
  user: u
  password: ${env:CDC_TEST_PASSWORD}
  tables:   # what is followed
  - public.orders  # the orders
  # between
  - "sales.*"

  # behind
  heartbeat_seconds: 7
log: {bootstrap: "k:9092"}
connect: {url: "http://c:8083"}
followers:
  lake: {kind: delta, path: lake}
  search: {kind: search, url: "http://s:9200", leave_out: [public.orders]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cdc.yaml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def add(file: Path, *names: str) -> list[str]:
    edit = add_tables(file, names, ENVIRON)
    edit.write()
    return [*edit.added]


def remove(file: Path, *names: str) -> tuple[list[str], list[str]]:
    edit = remove_tables(file, names, ENVIRON)
    edit.write()
    return [*edit.removed], [*edit.added]


def test_all_other_lines_stay(file: Path) -> None:
    assert add(file, "customers", "public.orders", 'odd."Name": x') == ["public.customers", 'odd."Name": x']
    line = '  - "sales.*"\n'
    odd = r'''  - "odd.\"Name\": x"'''
    assert file.read_text() == TEXT.replace(line, f"{line}  - public.customers\n{odd}\n")
    assert file.stat().st_mode & 0o777 == 0o640
    assert remove(file, "public.customers", 'odd."Name": x') == (["public.customers", 'odd."Name": x'], [])
    assert file.read_text() == TEXT
    assert [path.name for path in file.parent.iterdir()] == ["cdc.yaml"]


def test_a_table_of_a_pattern_is_excluded(file: Path) -> None:
    assert remove(file, "sales.old") == ([], ["!sales.old"])
    selection = load(file, ENVIRON).selection
    assert "sales.old" not in map(str, selection.select_from([]))
    assert selection.entries == ("public.orders", "sales.*", "!sales.old")
    # named again, it is followed, whatever is excluded
    assert add(file, "sales.old") == ["sales.old"]
    assert remove(file, "sales.old") == (["sales.old"], [])
    assert remove(file, "!sales.old") == (["!sales.old"], [])
    assert file.read_text() == TEXT


@pytest.mark.parametrize("text", ["[public.orders, 'sales.*']  # of one line", '[ "public.orders","sales.*" ]'])
def test_a_list_of_one_line(file: Path, text: str) -> None:
    begin, _, rest = TEXT.partition("   # what is followed\n")
    behind = rest.partition('"sales.*"\n')[2]
    file.write_text(f"{begin} {text}\n{behind}")
    assert add(file, "public.customers") == ["public.customers"]
    assert load(file, ENVIRON).source.tables == ["public.orders", "sales.*", "public.customers"]
    assert file.read_text().endswith(behind)
    assert ("# of one line" in text) == ("# of one line" in file.read_text())


def test_the_template(tmp_path: Path) -> None:
    file = tmp_path / "cdc.yaml"
    before = template(TemplateValues(password="${env:CDC_TEST_PASSWORD}"))
    file.write_text(before)
    add(file, "public.customers")
    assert file.read_text() == before.replace("    - public.orders\n", "    - public.orders\n    - public.customers\n")
    remove(file, "public.orders")
    assert load(file, ENVIRON).source.tables == ["public.customers"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["public.orders"], "public.orders is none of source.tables"),
        (["public.nothing"], "public.nothing is none of source.tables → the file has public.orders, sales.*"),
        (["public.orders", "sales.*"], "no table would be left → `cdc teardown`"),
    ],
)
def test_what_would_be_wrong_is_not_written(file: Path, names: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        remove_tables(file, names, ENVIRON)
    # the first is still named under leave_out
    assert told in str(refused.value)
    assert file.read_text() == TEXT


def test_a_wrong_name_is_not_written(file: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"cdc.yaml:13: source\.tables\[2\]: a name in Postgres has at most 63 bytes"
    ):
        add_tables(file, ["a" * 64], ENVIRON)


def test_somebody_elses_change_is_kept(file: Path) -> None:
    edit = add_tables(file, ["public.customers"], ENVIRON)
    file.write_text(f"{TEXT}# meanwhile\n")
    with pytest.raises(RefusedError, match="somebody has changed"):
        edit.write()
    assert file.read_text() == f"{TEXT}# meanwhile\n"
    assert [path.name for path in file.parent.iterdir()] == ["cdc.yaml"]

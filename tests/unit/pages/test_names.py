"""Pages name the files of their rooms; what is named in backticks is there: in the code, as a path, or as a verb."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from subprocess import run

import pytest
import typer

from cdc.__main__ import VERBS
from cdc.cli.app import build

ROOT = Path(__file__).parents[3]
PRODUCT = ("cdc", "connect", "docker", "docs", "sinks", "snapshots")
FILES = tuple(
    Path(name) for name in run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
)
OURS = tuple(path for path in FILES if path.parts and path.parts[0] in PRODUCT and (ROOT / path).is_file())
ROOMS = {path.parent: path for path in OURS if path.name == "README.md"}
TEXTS = frozenset({".java", ".md", ".properties", ".py", ".sql", ".toml", ".yaml"})
WORD = re.compile(r"[A-Za-z_]\w{2,}")
A_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/|[\w./-]+\.(java|md|py|sql|toml|yaml)")
NAMED = re.compile(r"`([^`\n]+)`")
A_ROOM_OF_A_ROW = re.compile(r"^\| `[^`|]*/` (?=\|[^|]*\|([^|]|\\\|)*\|$)", re.MULTILINE)
"""The first cell of three: the files behind it lie there. `x/`: with a colon says the same."""
GENERATED = frozenset({"DOCTOR.md", "METRICS.md", "PROVEN.md", "SETTINGS.md"})
OF_OTHERS = frozenset(
    WORD.findall("""
    AWS4 gssencmode HMAC KAFKA_OPTS logicalCluster PQtrace SHA256
    _score AbstractStatus annotate_types any_value apply_typmod_special AWS_ aws_access_key_id aws_allow_http
    aws_endpoint_url aws_region aws_secret_access_key aws_virtual_hosted_style_request AZURE_FEDERATED_TOKEN_FILE
    connector fake gcs hadoop ifGenerationMatch server check_ivm_restriction_walker
    CommandBuilderUtils count_if crypto current_date d2s dataSkippingNumIndexedCols dockerignore EncodeInterval flympg
    fuzziness ifnull INHERITS iso_8601 lc_messages logical_replication max_expansions max_worker_processes mkdocs
    numeric_send numerictypmodin nvl pooler primary_conninfo primary_slot_name rand randstr rds rds_replication
    scan_delta stddev storage_options synchronized_standby_slots TABLESAMPLE to_date to_pyarrow_dataset to_pyarrow_table
    tolerance unreserved VacuumCommand
""")
)
"""Words of Postgres and its providers, Spark, Delta, OpenSearch, object stores and their clients that our code does not
write."""
OF_EXAMPLES = frozenset(
    WORD.findall("""
    A6D96F0 B374D848 city copy2 E300 expires minutes_late page_views_history_2 PG_PASSWORD price_version
    prices_history prices_history_2 sas sourcing t_a table_history valid_from web
""")
)
MADE = frozenset(
    [
        ".cdc/",
        "_cdc/",
        "local/",
        "secrets/",
        "work/",
        "index/spill",
        "local/postgres",
        "secrets/postgres.password",
        "connect.py",
        "views.py",
    ]
)
"""Paths that are there at run time, or in a program of somebody's own."""


def list_named(text: str) -> set[str]:
    """What a text names in backticks, outside of its blocks."""
    return set(NAMED.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


@cache
def paths() -> frozenset[str]:
    """Every path of the repository, and every end of one; folders have a slash behind them."""
    whole = {path.as_posix() for path in FILES} | {f"{above.as_posix()}/" for path in FILES for above in path.parents}
    return frozenset(name.split("/", start)[-1] for name in whole for start in range(name.count("/") + 1))


def list_docs(tree: ast.Module) -> Iterator[ast.Constant]:
    """The docstrings, those of values included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


@cache
def modules() -> dict[Path, tuple[str, list[str]]]:
    """The code of each module, and its docstrings and comments."""
    return {path: split_docs((ROOT / path).read_text()) for path in OURS if path.suffix == ".py"}


def split_docs(text: str) -> tuple[str, list[str]]:
    lines, docs = text.splitlines(), [*list_docs(ast.parse(text))]
    for doc in docs:
        for at in range(doc.lineno - 1, doc.end_lineno or doc.lineno):
            lines[at] = ""
    code = "\n".join(lines)
    return re.sub(r"#.*", "", code), [*(str(doc.value) for doc in docs), *re.findall(r"#.*", code)]


@cache
def known_words() -> frozenset[str]:
    others = [path for path in (*OURS, Path("pyproject.toml")) if path.suffix not in {".py", ".md"}]
    read = [*(code for code, _ in modules().values()), *((ROOT / path).read_text() for path in others), *list_tests()]
    return frozenset(word for text in (*read, *map(str, FILES)) for word in WORD.findall(text))


def list_tests() -> Iterator[str]:
    """The names of tests, which a page may name as what holds a promise."""
    for path in FILES:
        if path.name.startswith("test_") and (ROOT / path).is_file():
            yield from re.findall(r"^def (test_\w+)", (ROOT / path).read_text(), re.MULTILINE)


def texts() -> Iterator[tuple[Path, str]]:
    """Every page, docstring and comment, with its file."""
    for path in OURS:
        if path.suffix == ".md" and path.name not in GENERATED:
            yield path, (ROOT / path).read_text()
    for path, (_, docs) in modules().items():
        yield from ((path, doc) for doc in docs)


def is_there(name: str, path: Path) -> bool:
    """Is this the name of a file, or are all of its words in the code?"""
    if A_PATH.fullmatch(name):
        return name in paths() | MADE or (ROOT / path.parent / name).exists()
    return {*WORD.findall(name)} <= known_words() | OF_OTHERS | OF_EXAMPLES


def test_names_in_backticks_are_there() -> None:
    # a name has no blanks; what has some is a command or a piece of SQL
    found = {(name, path) for path, text in texts() for name in list_named(text) if " " not in name}
    assert len(found) > 1000
    assert sorted(f"{path}: {name}" for name, path in found if not is_there(name, path)) == []


def test_verbs_in_backticks_are_there() -> None:
    made = typer.main.get_command(build(VERBS))
    verbs = {*getattr(made, "commands", {})}
    named = [(path, name.split(" ")) for path, text in texts() for name in list_named(text) if name.startswith("cdc ")]
    assert {words[1] for _, words in named} >= verbs - {"version"}
    wrong = [
        f"{path}: {' '.join(words)}" for path, words in named if re.match("[a-z]", words[1]) and words[1] not in verbs
    ]
    assert sorted(wrong) == []


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_page_names_the_files_of_its_room(room: Path) -> None:
    page = re.sub(A_ROOM_OF_A_ROW, "|", (ROOT / ROOMS[room]).read_text())
    # a folder that is named, and not as the place of the files beside it, is named with all in it
    named = [name for name in list_named(page) if not name.endswith("/") or f"`{name}`:" not in page]
    named += re.findall(r"\]\(([\w./]+\.md)", page)
    own = [f"/{path.relative_to(room).as_posix()}" for path in OURS if is_of(path, room)]
    assert [file for file in own if not any(names(name, file) for name in named)] == []


def names(name: str, file: str) -> bool:
    return f"/{name}" in file if name.endswith("/") else file.endswith(f"/{name}")


def is_of(path: Path, room: Path) -> bool:
    """Has this file to be named by the page of this room?"""
    nearest = next((above for above in path.parents if above in ROOMS), None)
    return nearest == room and path.suffix in TEXTS and path.name not in {"__init__.py", "README.md"}

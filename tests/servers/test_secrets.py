"""A secret in each place where one may stand: no verb shows it, here, to who lists processes, or to another user.

The shell exports what users of other Sparks have in it, and the verbs take nothing of it: those that start a Spark,
here the first copy, and `cdc submit` with the job.
"""

import os
import secrets
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest
from pyspark.sql import SparkSession

from cdc.__main__ import main
from cdc.local.endpoints import CONNECT_USER, SUPERUSER, Service
from cdc.local.services import endpoints
from cdc.local.state.passwords import password
from cdc.local.state_dir import Home
from tests.support.cdc_inprocess import lend_session
from tests.support.cdc_subprocess import LIMIT_SECONDS, Running, started
from tests.support.parts.pipelines import MakePipeline, Pipeline
from tests.support.parts.ports import free_port
from tests.support.parts.quick_spark import QUICK_BLOCK
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(1200)
WORD = f"canary{secrets.token_hex(6)}"
ROLE = f"r{secrets.token_hex(6)}"
OF_OTHER_SPARKS = {
    "PYSPARK_PYTHON": "/nowhere/python",
    "PYSPARK_DRIVER_PYTHON": "/nowhere/python",
    "PYSPARK_SUBMIT_ARGS": "--master spark://nowhere:1 pyspark-shell",
    "SPARK_HOME": "/nowhere",
    "SPARK_CONF_DIR": "/nowhere",
    "SPARK_REMOTE": "sc://nowhere",
    "SPARK_LOCAL_IP": "0.0.0.0",  # noqa: S104
}
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def place_secrets(pipeline: Pipeline) -> None:
    """Put the word wherever the file takes a secret; only references to it are in the file, as users write them."""
    pipeline.run(f"CREATE ROLE {ROLE} SUPERUSER REPLICATION LOGIN PASSWORD '{WORD}'")
    values = pipeline.servers.values
    reference = "${env:CDC_TEST_WORD}"
    pipeline.configure(f"user: {values.user}\n", f"user: {ROLE}\n")
    pipeline.configure("${env:CDC_TEST_PASSWORD}", reference)
    url = values.search_url
    pipeline.configure(f"url: {url}\n", f"url: {url.replace('://', f'://me:{reference}@')}\n")
    pipeline.configure("conf: {}\n", f"conf:\n{QUICK_BLOCK}    spark.hadoop.fs.azure.account.key.ours: {reference}\n")
    if values.password_reference:
        text = pipeline.config.read_text()
        lines = [line for line in text.splitlines() if "password_reference" not in line]
        pipeline.config.write_text("\n".join(lines) + "\n")


@pytest.fixture
def pipeline(make_pipeline: MakePipeline) -> Iterator[Pipeline]:
    made = make_pipeline("CREATE TABLE things (id int PRIMARY KEY)", tables=("public.things",))
    made.run("INSERT INTO things SELECT generate_series(1, 100)")
    made.environ.update({**OF_OTHER_SPARKS, "CDC_TEST_WORD": WORD})
    place_secrets(made)
    yield made
    made.run(f"REASSIGN OWNED BY {ROLE} TO CURRENT_USER", f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


def check_processes(running: Running) -> None:
    """No process that the verb has started has the word in its command line, or listens to other machines."""
    for process in running.process.children(recursive=True) if running.process.is_running() else []:
        with suppress(psutil.NoSuchProcess):
            assert WORD not in " ".join(process.cmdline())
            listening = [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
            assert [each.laddr for each in listening if each.laddr.ip not in LOOPBACK] == []


def watch(pipeline: Pipeline, *arguments: str) -> str:
    """Run a verb to its end, with an eye on its processes; what it said."""

    def has_ended() -> bool:
        check_processes(running)
        return running.ended is not None

    with started(pipeline, *arguments) as running:
        until(has_ended, "it ends", LIMIT_SECONDS, every=0.5)
        assert running.ended == 0, running.said
        return running.said


RunHere = Callable[..., str]


@pytest.fixture
def run_here(
    pipeline: Pipeline, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunHere:
    """Runs a verb by this process, with the one Spark session of the tests; all that it said."""

    def run(*words: str, code: int = 0) -> str:
        with monkeypatch.context() as patched:
            lend_session(spark, patched)
            patched.setenv("CDC_TEST_WORD", WORD)
            ended, said = main(["--config", str(pipeline.config), *words]), capsys.readouterr()
        assert ended == code, said
        return said.out + said.err

    return run


def files_of(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_a_secret_is_shown_nowhere(pipeline: Pipeline, run_here: RunHere) -> None:
    before = set(files_of(pipeline.config.parent))
    said = [watch(pipeline, "bootstrap")]
    pipeline.run("INSERT INTO things SELECT generate_series(101, 200)")
    said += [watch(pipeline, "submit", "--until-caught-up")]
    said += [run_here(*words) for words in (("verify",), ("config", "check"), ("config", "render"))]
    said += [run_here("status", "--json"), refused_by_nobody(pipeline, run_here)]
    # the login of Connect stands in its URL
    home = pipeline.servers.home
    words = [WORD, *([password(home, CONNECT_USER).read()] if home else [])]
    assert [text for text in said for word in words if word in text] == []
    made = [path for path in files_of(pipeline.config.parent) if path not in before and path.suffix != ".said"]
    assert [path for path in made if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)] == []
    logs = [*files_of(home.logs)] if home else []
    assert [path for path in (*made, *logs) for word in words if word.encode() in path.read_bytes()] == []
    if home and os.geteuid() == 0:
        check_as_stranger(pipeline, home, words)


def check_as_stranger(pipeline: Pipeline, home: Home, words: Sequence[str]) -> None:
    """Another user reads neither a password nor a row, and gets nothing out of Connect."""
    superuser = password(home, SUPERUSER).read()
    # the file of the pipeline itself, which has references only
    own = pipeline.config.parent
    # by name: nobody else can list the folder around them
    folders = [own, home.secrets, home.logs, *map(home.folder, Service)]
    told = read_as_stranger([*words, superuser], *folders)
    assert f"read {pipeline.config}" in told
    # what the tests themselves write down, too
    assert [line for line in told if not line.endswith(("/cdc.yaml", ".schema.json", ".said"))] == []
    assert [line for line in told if line.startswith("holds")] == []
    url = endpoints(home).connect_url
    asked = f"${{file:{home.secrets}/{SUPERUSER}.properties:password}}"
    body = {"connector.class": "x", "name": asked}
    for answer in (httpx.get(f"{url}/connectors"), httpx.put(f"{url}/connector-plugins/x/config/validate", json=body)):
        assert answer.status_code == httpx.codes.UNAUTHORIZED
        assert superuser not in answer.text


STRANGER = 54321
"""A user of this machine that nobody is."""
READER = """
import os, sys
words = [word.encode() for word in sys.stdin.read().split()]
for root in sys.argv[1:]:
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                content = open(os.path.join(folder, name), "rb").read()
            except OSError:
                continue
            print("holds" if any(word in content for word in words) else "read", os.path.join(folder, name))
"""
"""Reads all that may be read below the folders that are given; says which of it holds a word."""


@contextmanager
def passable(*folders: Path) -> Iterator[None]:
    """Others may enter the folders above these meanwhile, as they may enter those of users: pytest's are closed."""
    before = {each: each.stat().st_mode for folder in folders for each in folder.parents if len(each.parts) > 2}
    try:
        for each, mode in before.items():
            each.chmod(mode | 0o755)
        yield
    finally:
        for each, mode in before.items():
            each.chmod(mode)


def read_as_stranger(words: Sequence[str], *folders: Path) -> list[str]:
    """What another user of this machine reads below the folders."""
    with passable(*folders):
        # the system's own: that of a virtual environment may lie where others cannot enter
        ran = subprocess.run(
            ["/usr/bin/env", "-i", "python3", "-c", READER, *map(str, folders)],
            input="\n".join(words),
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
    return ran.stdout.splitlines()


def refused_by_nobody(pipeline: Pipeline, run_here: RunHere) -> str:
    """What a verb says, with its traceback, where Connect does not answer."""
    connect = pipeline.servers.values.connect_url
    nobody = f"http://me:${{env:CDC_TEST_WORD}}@127.0.0.1:{free_port()}"
    pipeline.configure(connect, nobody)
    said = run_here("--debug", "bootstrap", "--again", "public.things", code=4)
    pipeline.configure(nobody, connect)
    return said

"""The command of `cdc submit`: what is in it, and what goes by a file."""

import shlex
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.config.file import load
from cdc.config.init import TemplateValues, template
from cdc.config.settings import PipelineSettings
from cdc.core.errors import ConfigurationError
from cdc.run.spark.java_process import own_environment
from cdc.run.spark.session import assemble_conf
from cdc.run.submit import Submission, write_command

SPARK = (
    "spark:\n  python: /opt/python\n  conf:\n    spark.my.secret: canary\n    spark.driver.extraJavaOptions: -Dmine=1\n"
)


def settings_with(folder: Path, spark: str) -> PipelineSettings:
    folder.mkdir()
    text = template(replace(TemplateValues(), lake=str(folder / "lake")))
    file = folder / "cdc.yaml"
    file.write_text(text[: text.index("spark:\n")] + spark)
    return load(file, {"CDC_SOURCE_PASSWORD": "canary"})


def test_settings_go_by_a_file_of_ones_own(tmp_path: Path) -> None:
    settings = settings_with(tmp_path / "my shop", SPARK)
    command = write_command(tmp_path, Submission.of(settings, "spark://10.0.0.1:7077", ["follow"]))
    assert command[1:5] == ["--master", "spark://10.0.0.1:7077", "--deploy-mode", "client"]
    assert "canary" not in " ".join(command)
    conf = Path(command[command.index("--properties-file") + 1])
    assert stat.S_IMODE(conf.stat().st_mode) == 0o600
    lines = conf.read_text().splitlines()
    assert "spark.my.secret=canary" in lines
    assert "spark.pyspark.python=/opt/python" in lines
    assert [line for line in lines if line.startswith("spark.submit.pyFiles=file") and "my%20shop" in line]


def test_a_local_master_listens_on_loopback(tmp_path: Path) -> None:
    settings = settings_with(tmp_path / "shop", SPARK)
    conf = Submission.of(settings, "local[2]", ["follow"]).conf
    wanted = {"spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    assert {name: conf[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("master", "key", "ours", "users"),
    [
        ("local[2]", "spark.driver.extraJavaOptions", "-Dcdc.spark.log=", "-Dmine=1"),
        ("local[2]", "spark.driver.extraClassPath", "delta-spark", "/my.jar"),
        ("spark://h:1", "spark.driver.extraClassPath", "delta-spark", "/my.jar"),
        ("spark://h:1", "spark.jars", "delta-spark", "/my.jar"),
        ("spark://h:1", "spark.submit.pyFiles", "cdc-toolkit.zip", "/my.zip"),
    ],
)
def test_a_list_has_our_part_and_the_users(tmp_path: Path, master: str, key: str, ours: str, users: str) -> None:
    settings = settings_with(tmp_path / "shop", f"spark:\n  python: /p\n  conf: {{{key}: {users}}}\n")
    found = Submission.of(settings, master, ["follow"]).conf[key]
    assert ours in found
    assert found.endswith(users)


def test_options_of_java_are_quoted(tmp_path: Path) -> None:
    folder = tmp_path / "my shop's 100%"
    options = Submission.of(settings_with(folder, ""), "local[2]", []).conf["spark.driver.extraJavaOptions"]
    log = folder / ".cdc" / "logs" / "spark.log"
    assert f"-Dcdc.spark.log={log}" in shlex.split(options)
    # a percent sign begins something in a pattern
    assert f"-Dcdc.spark.logs={log}".replace("%", "%%") in shlex.split(options)


def test_a_clusters_driver_reads_its_classes_from_an_archive_if_its_paths_allow_it(tmp_path: Path) -> None:
    """It runs on this machine, with the class path of a session here, of which no path may have a colon or comma."""
    here = Submission.of(settings_with(tmp_path / "shop", SPARK), "spark://10.0.0.1:7077", []).options
    local = replace(here, master="local[2]", workers=None)
    assert here.archive == local.archive
    odd = replace(here, jars=[*here.jars, "/my,own:jars/a.jar"])
    assert (odd.archive, odd.class_path) == (None, None)
    assert "spark.driver.extraClassPath" not in assemble_conf(odd, {}, odd.archive)


@pytest.mark.parametrize("master", ["spark://h:1", "yarn", "k8s://h", "local-cluster[2,1,1024]"])
def test_a_cluster_is_asked_for_its_python(tmp_path: Path, master: str) -> None:
    settings = settings_with(tmp_path / "shop", "")
    with pytest.raises(ConfigurationError, match=r"spark\.python is not set, and .* is a cluster → name in it"):
        Submission.of(settings, master, ["follow"])


def test_a_comma_in_a_path_is_refused_by_name(tmp_path: Path) -> None:
    settings = settings_with(tmp_path / "a,b", "")
    with pytest.raises(ConfigurationError, match=r"a,b.* has , in it"):
        Submission.of(settings, "local[2]", ["follow"])


def test_what_a_shell_exports_for_other_sparks_counts_here_no_more() -> None:
    shell = {
        "PYSPARK_PYTHON": "/x",
        "SPARK_HOME": "/y",
        "SPARK_REMOTE": "sc://z",
        "SPARK_LOCAL_IP": "10.0.0.1",
        "A": "b",
    }
    own = own_environment(shell, "/python", local=True)
    assert {name for name in own if name not in ("PYSPARK_PYTHON", "SPARK_HOME")} == {"A"}
    assert own["PYSPARK_PYTHON"] == "/python"
    assert own["SPARK_HOME"] != "/y"
    # a cluster's driver may need the address that others reach
    assert own_environment(shell, "/python", local=False)["SPARK_LOCAL_IP"] == "10.0.0.1"

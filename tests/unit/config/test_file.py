"""What a person reads when a configuration file is wrong: every message, with its line."""

import os
from pathlib import Path

import pytest

from cdc.config.errors import InvalidSettingsError
from cdc.config.file import load, read, render, schema
from cdc.core.errors import ConfigurationError
from cdc.sinks.lake.settings import S3Settings
from tests.unit.config.problems import PROBLEMS

GOOD = """\
version: 1
pipeline:
  name: shop
source:
  host: db
  port: 5432
  dbname: shop
  user: cdc
  password: ${env:PW}
  tables:
    - public.orders
    - public.lines
log:
  bootstrap: kafka:9092
connect:
  url: http://connect:8083
followers:
  lake:
    kind: delta
    path: lake
  search:
    kind: search
    url: http://search:9200
"""
ENVIRON = {"PW": "canary-hunter2"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("cdc.yaml")


def problems(file: Path, old: str, new: str) -> list[str]:
    """The lines that are printed for the good file with one piece replaced."""
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InvalidSettingsError) as refused:
        load(file, ENVIRON)
    assert "canary" not in str(refused.value)
    return str(refused.value).splitlines()


def test_valid_file_is_read(file: Path) -> None:
    file.write_text(GOOD)
    settings = load(file, ENVIRON)
    assert settings.source.password.get_secret_value() == "canary-hunter2"
    assert settings.pipeline.state == str(Path.cwd() / ".cdc")


def test_comma_of_a_decimal_in_braces_is_explained(file: Path) -> None:
    # YAML reads two keys: total, and 2)
    lines = problems(file, "port: 5432", "column_types: {public.orders: {total: decimal(5,2)}}")
    assert "\"decimal(5\" is not text, double, or 'decimal(p,s)' in quotes" in " ".join(lines)


def brief(old: str, new: str) -> str:
    """The last line that is there instead, or what is not there any more."""
    return new.strip().splitlines()[-1].strip() if new.strip() else f"without {old.strip().splitlines()[0]}"


@pytest.mark.parametrize(("old", "new", "message"), PROBLEMS, ids=[brief(old, new) for old, new, _ in PROBLEMS])
def test_problem_is_reported_with_its_line(file: Path, old: str, new: str, message: str) -> None:
    (line,) = problems(file, old, new)
    assert message in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("host: db", "host: db: x", "cdc.yaml:5: column 11: mapping values are not allowed here"),
        ("port: 5432", "password: canary", "cdc.yaml:9: column 3: key 'password' is there twice"),
        ("host: db", "host: !x db", "cdc.yaml:5: column 9: could not determine a constructor for the tag '!x'"),
        ("host: db", 'host: "\x01"', "cdc.yaml:1: not YAML: unacceptable character"),
        ("version: 1", "a: &a [*a]\nversion: 1", "cdc.yaml:1: an alias refers to itself"),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(file: Path, old: str, new: str, message: str) -> None:
    (line,) = problems(file, old, new)
    assert line.startswith(message)


def test_all_problems_are_reported_in_the_order_of_lines(file: Path) -> None:
    file.write_text(
        GOOD.replace("port: 5432", "portt: 1")
        .replace("${env:PW}", "${env:NOPE}")
        .replace("public.lines", "orders")
        .replace("http://search", "search")
    )
    with pytest.raises(InvalidSettingsError) as refused:
        load(file, {})
    assert [problem.line for problem in refused.value.problems] == [6, 9, 12, 23]
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cdc.yaml does not exist → run `cdc init`, or name another file with --config"),
        (b"", "cdc.yaml is empty → run `cdc init --force` for one to start from"),
        (b"\xff", "cdc.yaml is not UTF-8 text"),
        (b"- a\n", "cdc.yaml:1: not a block of keys"),
    ],
)
def test_missing_file_is_reported(file: Path, text: bytes | None, message: str) -> None:
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ConfigurationError) as refused:
        load(file, ENVIRON)
    assert str(refused.value) == message


def test_folder_is_no_configuration(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read: is a directory"):
        load(file, ENVIRON)


def test_references_are_resolved(file: Path) -> None:
    Path("secret").write_text("from file \n")
    Path("secret").chmod(0o600)
    file.write_text(
        GOOD.replace("${env:PW}", "${file:secret}")
        .replace("port: 5432", "port: ${env:PORT:-6543}")
        .replace("dbname: shop", "dbname: ${env:HOST:-}x$${env:PW}")
        .replace("8083\n", "8083\n  password_reference: ${file:/run/pg:password}\n")
    )
    loaded = read(file, {"HOST": "a-"})
    source = loaded.settings.source
    assert (source.port, source.dbname) == (6543, "a-x${env:PW}")
    assert source.password.get_secret_value().startswith("from file")
    left_alone = loaded.settings.connect.password_reference
    assert left_alone == "${file:/run/pg:password}"
    assert loaded.warnings == ()


def test_a_file_read_again_is_read_as_it_is_now(file: Path) -> None:
    file.write_text(GOOD)
    load(file, ENVIRON)
    file.with_name("password").write_text("other")
    assert load(file, {"PW": "new"}).source.password.get_secret_value() == "new"
    file.write_text(GOOD.replace("${env:PW}", "${file:password}").replace("5432", "5433"))
    again = load(file, {})
    assert (again.source.password.get_secret_value(), again.source.port) == ("other", 5433)


def test_secret_that_others_can_read_warns(file: Path) -> None:
    Path("secret").write_text("x")
    Path("secret").chmod(0o640)
    file.write_text(GOOD.replace("${env:PW}", "${file:secret}"))
    assert read(file, {}).warnings == ("secret can be read by others than its owner → chmod 600 secret",)


@pytest.mark.parametrize(("content", "why"), [(b"\n", "is empty"), (b"\xff", "is not UTF-8 text")])
def test_secret_file_without_a_secret_is_refused(file: Path, content: bytes, why: str) -> None:
    Path("secret").write_bytes(content)
    assert problems(file, "${env:PW}", "${file:secret}") == [f"cdc.yaml:9: source.password: file secret {why}"]


def test_secret_path_starts_at_the_configuration(file: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "secret").write_text("beside")
    (tmp_path / "conf" / "cdc.yaml").write_text(GOOD.replace("${env:PW}", "${file:secret}"))
    assert load(Path("conf/cdc.yaml"), {}).source.password.get_secret_value() == "beside"


def test_merged_keys_have_the_line_of_their_block(file: Path) -> None:
    file.write_text(GOOD.replace("log:\n", "log:\n  <<: {partitions: x}\n"))
    with pytest.raises(InvalidSettingsError, match=r"cdc\.yaml:13: log\.partitions"):
        load(file, ENVIRON)


def test_render_shows_no_secret(file: Path) -> None:
    extra = "8083\n  overrides:\n    database.password: canary\n    custom.metric.tags: http://me:canary@host/x\n"
    file.write_text(GOOD.replace("8083\n", extra))
    text = render(read(file, ENVIRON))
    assert "canary" not in text
    assert "http://**********@host/x" in text
    assert "slot: cdc_shop" in text


SECRETS_OF_OTHERS = """spark:
  conf:
    spark.hadoop.fs.azure.account.key.ours: canary
    spark.hadoop.fs.azure.sas.fixed.token.ours: canary
    spark.hadoop.fs.gs.encryption.key: canary
    spark.executor.extraJavaOptions: -Dstore.keyPassword=canary -Dtrust.secret="canary two" -Xss4m
    spark.mine: plain
"""


def test_render_shows_no_secret_under_a_name_of_others(file: Path) -> None:
    file.write_text(GOOD + SECRETS_OF_OTHERS)
    text = render(read(file, ENVIRON))
    assert "canary" not in text
    assert "-Xss4m" in text
    assert "spark.mine: plain" in text


REFERENCES = {
    "dbname: shop": "dbname: ${env:NAME}",
    "bootstrap: ": "bootstrap: ${env:NAME}:9092,",
    "url: http://": "url: http://me:${env:NAME:-canary}@",
    "path: lake": "path: ${env:NAME}/lake",
}


@pytest.mark.parametrize("old", REFERENCES)
def test_what_came_by_reference_is_rendered_as_that(file: Path, old: str) -> None:
    assert old in GOOD
    file.write_text(GOOD.replace(old, REFERENCES[old], 1))
    environ = {**ENVIRON, "NAME": "canary"}
    text = render(read(file, environ))
    assert "canary" not in text
    assert "${env:NAME}" in text
    # the reference is one, and no text: read again it has the same value
    file.write_text(text.replace("'**********'", "${env:PW}"))
    assert render(read(file, environ)) == text
    assert "canary" in repr(load(file, environ))


def test_an_option_of_java_takes_no_reference(file: Path) -> None:
    file.write_text(GOOD + "spark:\n  conf:\n    spark.driver.extraJavaOptions: -Dx=${env:PW}\n")
    with pytest.raises(InvalidSettingsError, match=r"spark\.conf\.spark\.driver\.extraJavaOptions: .*command line"):
        load(file, ENVIRON)


@pytest.mark.parametrize("name", ["spark.master", "spark.submit.deployMode"])
def test_where_spark_runs_is_told_in_one_place(file: Path, name: str) -> None:
    file.write_text(GOOD + f"spark:\n  conf:\n    {name}: cluster\n")
    with pytest.raises(InvalidSettingsError, match=rf"spark\.conf\.{name}: is "):
        load(file, ENVIRON)


def test_a_cluster_needs_its_python(file: Path) -> None:
    file.write_text(GOOD + "spark: {master: 'spark://host:7077'}\n")
    with pytest.raises(InvalidSettingsError, match=r"spark\.python: is required for a cluster"):
        load(file, ENVIRON)
    for named in ("python: /opt/python", "conf: {spark.pyspark.python: /opt/python}"):
        file.write_text(GOOD + f"spark: {{master: 'spark://host:7077', {named}}}\n")
        assert load(file, ENVIRON).spark.workers_python == "/opt/python"


def test_object_store_settings_are_read(file: Path) -> None:
    block = (
        "path: s3://bucket/lake\n    s3:\n      endpoint: https://store:9000/\n      access_key_id: ${env:PW}\n"
        "      secret_access_key: ${env:PW}\n      session_token: ${env:NONE:-}"
    )
    file.write_text(GOOD.replace("path: lake", block))
    lake = load(file, ENVIRON).delta[1]
    access = lake.access
    assert isinstance(access, S3Settings)
    assert (access.endpoint, access.region, access.session_token) == ("https://store:9000", "us-east-1", None)
    assert "canary" not in repr(lake) + repr(access) + render(read(file, ENVIRON))


@pytest.mark.parametrize(
    "block",
    [
        "path: abfss://box@ours.dfs.core.windows.net/lake\n    azure: {account_key: 'canaryABCDEF'}",
        "path: az://box\n    azure: {account: ours, sas_token: 'sv=1&sig=canary'}",
        "path: az://box\n    azure: {account: ours, client_id: a, tenant_id: b, client_secret: canary}",
        'path: gs://box\n    gs: {service_account_key: \'{"client_email": "a", "private_key": "canary"}\'}',
    ],
)
def test_keys_of_the_clouds_are_never_shown(file: Path, block: str) -> None:
    file.write_text(
        f"{GOOD.replace('path: lake', block)}catalog: {{kind: hive, url: 'jdbc:derby:x', password: canary}}\n"
    )
    loaded = load(file, ENVIRON)
    assert loaded.catalog is not None
    assert "canary" not in repr(loaded) + repr(loaded.delta[1].access) + render(read(file, ENVIRON))


def test_a_catalogs_address_is_one_of_a_metastore(file: Path) -> None:
    for wrong in ("{kind: hive, url: 'http://a'}", "{kind: hive, url: 'thrift://a:1', password: canary}"):
        file.write_text(f"{GOOD}catalog: {wrong}\n")
        with pytest.raises(InvalidSettingsError, match=r"catalog.*(is none of thrift|are for a metastore's database)"):
            load(file, ENVIRON)


def test_missing_object_store_settings_come_from_the_environment() -> None:
    environ = {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "https://b/", "AWS_DEFAULT_REGION": "r"}
    complete = S3Settings().complete(environ)
    assert (complete.endpoint, complete.region) == ("https://b", "r")
    assert S3Settings(endpoint="https://c", region="q").complete(environ).endpoint == "https://c"
    with pytest.raises(ConfigurationError, match=r"AWS_ENDPOINT_URL http://a is not encrypted: .*allow_http"):
        S3Settings().complete({"AWS_ENDPOINT_URL": "http://a"})


def test_schema_leaves_room_for_references() -> None:
    port = schema()["$defs"]["SourceSettings"]["properties"]["port"]
    assert port["default"] == 5432
    assert [option["type"] for option in port["anyOf"]] == ["integer", "string"]


def test_environment_is_read_with_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PW", "x")
    file.write_text(GOOD)
    assert load(file).source.password.get_secret_value() == "x"

"""Properties of the configuration file: it survives writing and reading, and an unknown key is named with its line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cdc.config.errors import InvalidSettingsError
from cdc.config.file import LoadedSettings, load, render
from cdc.config.init import TemplateValues, template
from cdc.config.references import Resolver, escape
from cdc.config.settings import PipelineSettings
from cdc.connect.tunable_properties import TUNABLE

once_a_test = given_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

names = st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z")
texts = (
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], include_characters="\n\t${}:"), min_size=1)
    .map(str.strip)
    .filter(lambda text: text and "@" not in text)
)
# what drivers take: no folder of a socket, nor several hosts, and no name that is read otherwise where it is put
hosts = st.from_regex(r"\A[A-Za-z0-9_.-]+\Z")
reached = texts.filter(lambda text: not set(text) & set("/?%+, '="))
urls = st.sampled_from(["http://host:9200", "https://search.example/x"])
MASKED = {"database.password"}
"""Settings that are not rendered."""
words = st.dictionaries(st.text("xyz.", min_size=1), texts, max_size=3)
tables = st.lists(names.map("public.{}".format), min_size=1, max_size=4, unique=True)


def block(**required: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required)


def optional(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


def both(one: st.SearchStrategy[dict[str, Any]], two: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Any]:
    return st.tuples(one, two).map(lambda pair: {**pair[0], **pair[1]})


sources = both(
    block(host=hosts, dbname=reached, user=reached, password=texts, tables=tables),
    optional(port=st.integers(1, 65535), slot=names, sslrootcert=texts, sslmode=st.just("require")),
)
logs = both(block(bootstrap=texts), optional(partitions=st.integers(1, 1000), username=texts, password=texts))
captures = both(
    block(url=urls),
    optional(
        password_reference=texts.map("${{file:{}".format),
        overrides=st.dictionaries(st.sampled_from(sorted(TUNABLE - MASKED)), texts),
        connector=names,
    ),
)
logins = st.just(dict[str, Any]()) | block(username=texts, password=texts)
searches = both(both(block(kind=st.just("search"), url=urls), logins), optional(prefix=names))
stores = both(
    block(access_key_id=texts, secret_access_key=texts),
    optional(endpoint=st.just("https://host:9000"), region=texts, session_token=texts, path_style=st.booleans()),
)
folders = block(kind=st.just("delta"), path=st.sampled_from(["/lake", "/a: b #c"]))
buckets = both(block(kind=st.just("delta"), path=st.just("s3://lake/x")), optional(s3=stores))
deltas = folders | buckets
followers = both(
    block(lake=deltas), optional(search=searches, latest=block(kind=st.just("latest")), other=st.nothing())
)
configurations = both(
    block(
        version=st.just(1),
        pipeline=names.map(lambda name: {"name": name, "state": "/state"}),
        source=sources,
        log=logs,
        connect=captures,
        followers=followers,
    ),
    optional(spark=block(conf=words), follow=block(trigger_seconds=st.floats(0, 60))),
)


@once_a_test
@given(configurations)
def test_rendered_settings_load_to_the_same(tmp_path: Path, values: dict[str, Any]) -> None:
    settings = PipelineSettings.model_validate(values)
    path = tmp_path / "cdc.yaml"
    path.write_text(render(LoadedSettings(settings)), encoding="utf-8")
    assert load(path, {}).model_dump(mode="json") == settings.model_dump(mode="json")


def blocks(values: dict[str, Any], place: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The places of the blocks that have keys of their own, not of the user's choice."""
    inner = [found for key, item in values.items() if isinstance(item, dict) for found in blocks(item, (*place, key))]
    free = place[-1:] in (("followers",), ("conf",), ("overrides",))
    return inner if free else [place, *inner]


@once_a_test
@given(configurations, st.data())
def test_unknown_key_is_named_with_its_line(tmp_path: Path, values: dict[str, Any], data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(blocks(values)))
    inner = values
    for key in place:
        inner = inner[key]
    inner["qqqq"] = 1
    path = tmp_path / "cdc.yaml"
    dumper = YAML(typ="rt", pure=True)
    dumper.width = 2**20
    with path.open("w", encoding="utf-8") as out:
        dumper.dump(escaped(values), out)
    with pytest.raises(InvalidSettingsError) as refused:
        load(path, {})
    (problem,) = refused.value.problems
    lines = path.read_text(encoding="utf-8").split("\n")
    assert problem.where == ".".join((*place, "qqqq"))
    assert problem.text == "unknown key"
    assert lines[problem.line - 1].strip() == "qqqq: 1"


def escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    return escape(value) if isinstance(value, str) else value


@given(st.text())
def test_escaped_text_resolves_to_itself(text: str) -> None:
    resolver = Resolver(Path(), {})
    assert resolver.resolve(escape(text)) == text
    assert not resolver.findings


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_characters="$")))
def test_any_value_may_be_a_variable(value: str, around: str) -> None:
    resolver = Resolver(Path(), {"X": value})
    assert resolver.resolve([{"a": f"{around}${{env:X}}{around}"}]) == [{"a": around + value + around}]


template_values = st.builds(
    TemplateValues,
    name=names,
    tables=tables.map(tuple),
    host=hosts,
    port=st.integers(1, 65535),
    dbname=reached,
    user=reached,
    password=st.just("${env:PW}"),
    bootstrap=texts,
    password_reference=st.none() | st.just("${file:/run/pg:password}"),
    source_host=st.none() | hosts,
    source_port=st.none() | st.integers(1, 65535),
    lake=texts.map("/{}".format),
)


@once_a_test
@given(template_values)
def test_template_accepts_any_values(tmp_path: Path, values: TemplateValues) -> None:
    path = tmp_path / "cdc.yaml"
    path.write_text(template(values), encoding="utf-8")
    loaded = load(path, {"PW": "x"})
    source, capture = loaded.source, loaded.connect
    assert (source.host, source.port, source.dbname, source.user) == (
        values.host,
        values.port,
        values.dbname,
        values.user,
    )
    assert tuple(source.tables) == values.tables
    # a path is what it leads to
    assert (loaded.log.bootstrap, loaded.delta[1].path) == (values.bootstrap, str(Path(values.lake)))
    assert (capture.source_host, capture.source_port) == (values.source_host, values.source_port)
    assert capture.password_reference == values.password_reference

"""The bill of materials, its licences, and the lock file of Python's packages."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cdc.local.fetch.artifacts import Artifact, locked
from cdc.local.fetch.bom import add_jars, describe_installation, to_component
from tests.supply.licences import find_refused, is_allowed, list_licences

ROOT = Path(__file__).parents[3]
NO_PACKAGES = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}


def check_form(bill: str) -> None:
    # whoever collects the tests would compile its grammars, two seconds in each process
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None


def read_declared() -> Iterator[Requirement]:
    """What pyproject.toml asks for, for all whom requirements.lock serves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for line in [
        *project["dependencies"],
        *(line for name in ("lab", "serve", "otlp", "postgis", "aws", "erase", "supply") for line in extras[name]),
    ]:
        if not line.startswith("cdc-toolkit"):
            yield Requirement(line)


def test_each_declared_package_is_locked_at_a_version_it_may_have_with_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    locked_packages = re.findall(
        r"^(\S+?)==(\S+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}[ \\]*\n?)+)", text, re.MULTILINE
    )
    versions = {canonicalize_name(name.split("[")[0]): version for name, version, _ in locked_packages}
    assert len(locked_packages) == len(re.findall(r"^\S+?==", text, re.MULTILINE))
    for declared in read_declared():
        assert declared.specifier.contains(Version(versions[canonicalize_name(declared.name)])), declared


def test_bill_is_valid_and_has_every_jar_with_its_hash_and_a_licence_we_may_pass_on() -> None:
    bill = add_jars(NO_PACKAGES)
    check_form(bill)
    components = json.loads(bill)["components"]
    assert {c["hashes"][0]["content"] for c in components} == {artifact.sha256 for artifact in locked()}
    assert [*find_refused(components)] == []


def test_names_of_poms_become_those_of_spdx() -> None:
    component = to_component(Artifact("g:n:1:natives", "ab" * 32, 7, licenses=("The MIT License", "Apache 2", "odd")))
    assert sorted(licence.id or licence.name for licence in component.licenses) == ["Apache-2.0", "MIT", "odd"]
    assert str(component.purl) == "pkg:maven/g/n@1?classifier=natives&type=jar"


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR Apache-2.0)", True),
    ],
)
def test_one_alternative_of_an_expression_is_enough(licence: str, allowed: bool) -> None:
    assert is_allowed(licence) is allowed


def test_component_without_a_licence_is_refused() -> None:
    unknown = {"name": "thing", "version": "1"}
    assert [*find_refused([unknown])] == [unknown]
    assert list_licences({"name": "protobuf"}) == ["BSD-3-Clause"]


@pytest.mark.further
def test_installation_has_its_packages_and_its_jars() -> None:
    bill = describe_installation()
    check_form(bill)
    assert {"pyspark", "kafka-clients", "duckdb"} <= {c["name"] for c in json.loads(bill)["components"]}

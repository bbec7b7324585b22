"""What this installation is made of: a bill of materials in CycloneDX 1.6.

Python's packages are those that are installed, as `cyclonedx-py` finds them; the jars and binaries are all that
jars.lock.toml names, whichever of them are in the cache.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from cdc.core.errors import ConfigurationError
from cdc.local.fetch.artifacts import Artifact, locked, split

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import License

_NEEDED: Final = "cyclonedx_py"
SPDX: Final = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License 2.0": "Apache-2.0",
    "The Apache License, Version 2.0": "Apache-2.0",
    "The Apache Software License, Version 2.0": "Apache-2.0",
    "BSD 2-Clause": "BSD-2-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "CDDL 1.1": "CDDL-1.1",
    "CDDL + GPLv2 with classpath exception": "CDDL-1.0",
    "CDDL/GPLv2+CE": "CDDL-1.1",
    "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE (CDDL) Version 1.0": "CDDL-1.0",
    "EDL 1.0": "BSD-3-Clause",
    "Eclipse Distribution License - v 1.0": "BSD-3-Clause",
    "EPL 2.0": "EPL-2.0",
    "Eclipse Publish License, Version 1.0": "EPL-1.0",
    "Go License": "BSD-3-Clause",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "The MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "Modified BSD": "BSD-3-Clause",
}
"""The names that POMs give to licences, in SPDX's words; a name that is not here stays as it is."""


def describe_installation() -> str:
    """The bill of materials as JSON: components with version, purl, licences, and jars with their SHA-256.

    ConfigurationError without the extra `supply`.
    """
    if find_spec(_NEEDED) is None:
        remedy = "pip install 'cdc-toolkit[supply]'"
        raise ConfigurationError(f"a bill of materials needs {_NEEDED}, which is not installed", remedy)
    return add_jars(_installed_packages())


def add_jars(packages: Mapping[str, Any]) -> str:
    """A bill of Python's packages (the JSON of CycloneDX) with every locked artifact in it, as JSON."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.output.json import JsonV1Dot6

    bom = Bom.from_json(packages)  # type: ignore[attr-defined]
    bom.components.update(to_component(artifact) for artifact in locked())
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _installed_packages() -> Any:
    """The bill of the Python that runs this, made by a process of its own: the tool has no interface for programs."""
    command = [sys.executable, "-m", _NEEDED, "environment", "--of", "JSON", sys.executable]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603


def to_component(artifact: Artifact) -> "Component":
    """One locked artifact as a component of CycloneDX; its purl has the classifier, as two files may differ in it."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    group, name, version, classifier = split(artifact.coordinate)
    qualifiers = {"type": "jar"} | ({"classifier": classifier} if classifier else {})
    return Component(
        name=name,
        group=group,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=artifact.coordinate,
        purl=PackageURL("maven", group, name, version, qualifiers),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artifact.sha256)],
        licenses=_to_licenses(artifact.licenses),
    )


def _to_licenses(names: tuple[str, ...]) -> "list[License]":
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.license import DisjunctiveLicense

    make = LicenseFactory().make_from_string
    made = {str(found): found for found in (make(SPDX.get(name, name)) for name in names)}
    return [found for found in made.values() if isinstance(found, DisjunctiveLicense)]

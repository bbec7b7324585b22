"""Every lab, as `labs.toml` lists it. Its module is imported when it is run: so `cdc lab` is quick."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cdc.core.errors import ConfigurationError, PreconditionError
from cdc.local.endpoints import Service

if TYPE_CHECKING:
    from cdc.lab.lesson import Findings
    from cdc.lab.workplace import Workplace


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab. `shows`: its idea in a sentence; `parts` must be up before it is run."""

    module: str
    shows: str
    book: tuple[str, ...]
    files: tuple[str, ...]
    parts: tuple[Service, ...]

    @property
    def name(self) -> str:
        return self.module.split(".")[-1].replace("_", "-")

    def load(self) -> "Callable[[Workplace], Findings]":
        """Import the module; returns its `run`. Raises PreconditionError when a package is missing that it needs."""
        try:
            module = import_module(f"cdc.lab.{self.module}")
        except ModuleNotFoundError as error:
            package = str(error.name).split(".")[0]
            remedy = "pip install 'cdc-toolkit[lab]', if it is there for this Python"
            raise PreconditionError(f"lab {self.name} needs the package {package}", remedy) from error
        run: Callable[[Workplace], Findings] = module.run
        return run


_FILE: Final = Path(__file__).with_name("labs.toml")
LABS: Final = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, list[Lab]])["lab"]


def find_lab(name: str) -> Lab:
    """Find a lab by its name. Raises ConfigurationError, with the names that are near, if there is none."""
    by_name = {lab.name: lab for lab in LABS}
    if name in by_name:
        return by_name[name]
    near = get_close_matches(name, by_name)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigurationError(f"there is no lab {name}", f"{meant}`cdc lab` lists them")

"""What `cdc down --wipe` leaves: it removes the data of the parts, and nothing that was made from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.core.errors import CdcError

if TYPE_CHECKING:
    from cdc.local.state_dir import Home

CONFIGURATIONS = "cdc*.yaml"
"""The configurations beside a state folder, those of the demos included."""
TABLES = "*/*/*/_delta_log"
"""Where a lake in the state folder shows itself: `<lake>/<schema>/<table>/_delta_log`."""


def lakes(home: "Home", config: Path) -> list[str]:
    """The lakes that stand on these parts: those that configurations name, and those in the state folder itself.

    Asked before the parts are wiped, since a configuration may refer to their password. One that cannot be read names
    none.
    """
    files = {config, *config.parent.glob(CONFIGURATIONS)}
    named = {lake for file in files for lake in _named(file) if _is_there(lake)}
    inside = {str(log.parents[2]) for log in home.path.glob(TABLES)}
    return sorted(named | inside)


def _named(config: Path) -> Iterator[str]:
    from cdc.config.file import load

    try:
        yield load(config).delta[1].path
    except CdcError:
        return


def _is_there(lake: str) -> bool:
    """A URI is for its owner to look at."""
    return "://" in lake or Path(lake).exists()

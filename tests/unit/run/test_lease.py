"""Leases that nobody can hold: their folder is a file, or is not to be read."""

from pathlib import Path

import pytest

from cdc.core.errors import PreconditionError
from cdc.run.lease import Leases


def test_a_state_folder_that_is_a_file_holds_no_lease(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert not Leases(tmp_path / "state").is_held("lake")


def test_a_lease_that_cannot_be_read_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "lake.lock").symlink_to(tmp_path / "lake.lock")
    with pytest.raises(PreconditionError, match=r"lake\.lock cannot be read"):
        Leases(tmp_path).is_held("lake")

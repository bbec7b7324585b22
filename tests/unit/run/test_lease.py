"""Leases that nobody can hold: their folder is a file, or is not to be read."""

from pathlib import Path

import pytest

from cdc.core.errors import PreconditionError
from cdc.core.fail_points import arm
from cdc.run.lease import Leases


def test_a_state_folder_that_is_a_file_holds_no_lease(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    assert not Leases(tmp_path / "state").is_held("lake")


def test_a_lease_that_cannot_be_read_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "lake.lock").symlink_to(tmp_path / "lake.lock")
    with pytest.raises(PreconditionError, match=r"lake\.lock cannot be read"):
        Leases(tmp_path).is_held("lake")


def test_a_lease_that_cannot_be_taken_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "lake.lock").symlink_to(tmp_path / "lake.lock")
    with pytest.raises(PreconditionError, match=r"lake\.lock cannot be taken"), Leases(tmp_path).hold("lake"):
        pass


def test_a_state_folder_that_is_a_file_gives_no_lease(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(PreconditionError, match=r"lake\.lock cannot be taken"), Leases(tmp_path / "state").hold("lake"):
        pass


def test_an_error_of_who_holds_a_lease_is_not_the_leases(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="its own"), Leases(tmp_path).hold("lake"):
        raise OSError("its own")
    assert not Leases(tmp_path).is_held("lake")


def test_a_failure_behind_the_lock_gives_it_back(tmp_path: Path) -> None:
    arm("lease.taken:raise")
    with pytest.raises(PreconditionError, match=r"fail point lease\.taken"), Leases(tmp_path).hold("lake"):
        pass
    assert not Leases(tmp_path).is_held("lake")

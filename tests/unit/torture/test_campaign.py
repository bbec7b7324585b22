"""What a failing run leaves: the fault that it ended with, and its schedule before the search for a smaller one."""

from pathlib import Path
from typing import NoReturn

import pytest

from cdc.core.errors import DivergenceError, UnreachableError
from cdc.local.endpoints import Endpoints
from cdc.local.state.passwords import Password
from cdc.local.state_dir import Home
from cdc.torture import campaign
from cdc.torture.outcome import FaultResult, TortureOutcome
from cdc.torture.recovery import Recovery
from cdc.torture.remedies import NoRemedyError
from cdc.torture.run import TortureRun
from cdc.torture.schedule import FaultSchedule, PlannedFault
from cdc.torture.site import TortureSite

LOST = PlannedFault("lose-state", "follow", 0.0, 0.0)
OLD = PlannedFault("old-state", "follow", 0.0, 0.0, together=True)
LATER = PlannedFault("kill", "search", 0.0, 0.0)
SCHEDULE = FaultSchedule(7, 30.0, ("bank",), (LOST, OLD, LATER))


def make_site(folder: Path) -> TortureSite:
    """A site whose parts nobody has started."""
    word = Password(folder / "password", folder / "password.properties")
    nowhere = "http://127.0.0.1:9"
    endpoints = Endpoints("127.0.0.1", 9, "nobody", word, "127.0.0.1:9", nowhere, word, nowhere)
    return TortureSite(folder, Home(folder / ".cdc"), endpoints, {}, None)


def test_fault_that_ends_a_run_is_in_its_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(_: Recovery, say: campaign.Say) -> NoReturn:
        say("told: the table is lost")
        raise NoRemedyError("what `cdc` says does not help")

    monkeypatch.setattr(Recovery, "wait", give_up)
    outcome = TortureOutcome(SCHEDULE)
    run = TortureRun(make_site(tmp_path), outcome, lambda _: None)
    with pytest.raises(NoRemedyError):
        run._cause([LOST, OLD])
    assert outcome.faults == [FaultResult(LOST), FaultResult(OLD, told=("told: the table is lost",))]


def test_schedule_is_there_when_the_search_for_a_smaller_one_ends_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts cannot be started, say; of the faults it has those that were reached."""
    outcomes = iter([TortureOutcome(SCHEDULE, [FaultResult(LOST), FaultResult(OLD)], failure=DivergenceError("a row"))])

    def run_once(*_: object) -> TortureOutcome:
        if (found := next(outcomes, None)) is None:
            raise UnreachableError("kafka has not started", "see its log")
        return found

    monkeypatch.setattr(campaign, "run_schedule", run_once)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreachableError):
        campaign.run_campaign(SCHEDULE, lambda _: None, None, None, 60.0)
    assert FaultSchedule.read(tmp_path / "cdc-torture-7.json").faults == (LOST, OLD)

"""A question has a pace, a limit, and a lane: a part that hangs holds up nobody else."""

import threading

from cdc.core.errors import PreconditionError, UnreachableError
from cdc.core.waiting import Deadline
from cdc.run.status.asking.questions import ALWAYS, Lane, PacedQuestion
from tests.support.waiting import until

LONG = 60.0


def question(ask: object, every: float = ALWAYS, limit: float = LONG) -> PacedQuestion[object]:
    return PacedQuestion("the part", Lane("part"), ask, every=every, limit=limit, holds=15.0)  # type: ignore[arg-type]


def test_the_last_answer_is_kept_while_later_tries_fail() -> None:
    answers: list[object] = ["here", UnreachableError("no"), UnreachableError("no"), "again"]

    def ask() -> object:
        if isinstance(found := answers.pop(0), Exception):
            raise found
        return found

    asked = question(ask)
    seen = []
    while answers:
        asked.begin()
        asked.wait(Deadline(LONG))
        seen.append(asked.answer)
    assert [(answer.value, answer.is_silent) for answer in seen] == [
        ("here", False),
        ("here", True),
        ("here", True),
        ("again", False),
    ]
    assert seen[1].since == seen[2].since is not None
    assert seen[3].since is None


def test_a_part_that_hangs_does_not_answer_and_is_not_asked_again() -> None:
    let_go, asked_times = threading.Event(), []

    def hang() -> str:
        asked_times.append(1)
        let_go.wait()
        return "late"

    asked = question(hang, limit=0.0)
    asked.begin()
    asked.wait(Deadline(0.0))
    until(lambda: asked.answer.error is not None, "the limit has passed")
    assert asked.answer.is_silent
    assert "the part has not answered for" in str(asked.answer.error)
    asked.begin()
    let_go.set()
    asked.wait(Deadline(LONG))
    assert (asked.answer.value, asked.answer.error, len(asked_times)) == ("late", None, 1)


def test_a_pace_is_kept_unless_somebody_wants_it_now() -> None:
    asked_times: list[int] = []
    asked = question(lambda: asked_times.append(1), every=LONG)
    for _ in range(3):
        asked.begin()
        asked.wait(None)
    assert len(asked_times) == 1
    asked.begin(now=True)
    asked.wait(None)
    assert len(asked_times) == 2
    assert not asked.is_awaited


def test_a_bug_is_no_end_of_the_watch() -> None:
    asked = question(lambda: 1 // 0)
    asked.begin()
    asked.wait(Deadline(LONG))
    assert "the part is not known: an error that cdc does not know" in str(asked.answer.error)
    refused = question(lambda: (_ for _ in ()).throw(PreconditionError("no right", "GRANT it")))
    refused.begin()
    refused.wait(Deadline(LONG))
    assert not refused.answer.is_silent

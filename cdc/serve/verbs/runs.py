"""Verbs that run, and what became of those that have ended: the dialog asks for them by their number."""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from cdc.core.containment import LOG, describe_error
from cdc.core.errors import CdcError, PreconditionError
from cdc.serve.verbs.question import Do

KEPT: Final = 50


@dataclass(frozen=True, slots=True)
class Run:
    """A verb that somebody has agreed to. `ok`: None until it has ended."""

    id: int
    verb: str
    on: str
    began_at: str
    ended_at: str | None = None
    ok: bool | None = None
    lines: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Runs:
    """The runs of this server; a verb on one object runs once at a time. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, Run] = {}
        self._last = 0

    def find(self, number: int) -> Run | None:
        return self._runs.get(number)

    def begin(self, verb: str, on: str, do: Do) -> Run:
        """Do it in a thread of its own. Raises PreconditionError while the same runs already."""
        with self._lock:
            if any(run.ended_at is None and (run.verb, run.on) == (verb, on) for run in self._runs.values()):
                raise PreconditionError(f"{verb} {on} runs already", "wait for its end")
            self._last += 1
            run = Run(self._last, verb, on, _now())
            self._runs[run.id] = run
            self._runs.pop(run.id - KEPT, None)
        threading.Thread(target=self._work, args=(run, do), name=f"verb-{verb}", daemon=True).start()
        return run

    def _work(self, run: Run, do: Do) -> None:
        try:
            ok, lines = True, tuple(do())
        except CdcError as failed:
            ok, lines = False, failed.lines
        except Exception as failed:  # noqa: BLE001 - the dialog says it, and the server goes on
            LOG.error("%s %s: %s", run.verb, run.on, failed, exc_info=failed)
            ok, lines = False, (f"a bug of cdc or a case it does not know: {describe_error(failed)}",)
        self._runs[run.id] = replace(run, ended_at=_now(), ok=ok, lines=lines)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

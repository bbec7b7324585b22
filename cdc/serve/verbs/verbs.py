"""The verbs of the page, and their routes: a question by GET, its answer by POST."""

import getpass
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cdc.config.settings import CAPTURE
from cdc.core.errors import CdcError, PreconditionError
from cdc.run.control import control
from cdc.run.control.question import ControlVerb
from cdc.run.pipeline import Pipeline
from cdc.serve.guard import Door, refuse
from cdc.serve.publisher import Publisher
from cdc.serve.verbs.command import run_command
from cdc.serve.verbs.question import Do, Lines, VerbQuestion
from cdc.serve.verbs.questions import QUESTIONS
from cdc.serve.verbs.runs import Runs
from cdc.serve.words import is_old

NAMES: Final = (*ControlVerb, *QUESTIONS)
Answer = Callable[[str, str], Response]
"""Of a verb and what it is on."""


class Verbs:
    """Asks and runs the verbs on one pipeline. `config`: its file, for the command line."""

    def __init__(self, pipeline: Pipeline, config: Path, publisher: Publisher, door: Door) -> None:
        self._pipeline = pipeline
        self._config = config
        self._publisher = publisher
        self._door = door
        self._runs = Runs()

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/verbs/{verb}", self._ask, methods=["GET"]),
            Route("/verbs/{verb}", self._act, methods=["POST"]),
            Route("/runs/{number:int}", self._show_run),
        ]

    def ask(self, verb: str, on: str) -> VerbQuestion:
        """What the verb would do and cost now. Raises CdcError for a name that is not there, or an old document."""
        current = self._publisher.current
        if current is None or is_old(current.document["at"], current.document["every_seconds"], self._publisher.now()):
            raise PreconditionError("nobody has looked at the pipeline lately", "see why; the command line goes on")
        with self._pipeline.reopened() as pipeline:
            if verb in QUESTIONS:
                return QUESTIONS[verb](pipeline, current.document, on)
            asked = control.ask(pipeline, ControlVerb(verb), on)
        name = f"the {CAPTURE}" if on == CAPTURE else on
        return VerbQuestion(
            f"{verb.capitalize()} {name}?",
            (asked.happens,),
            asked.costs,
            asked.stays,
            asked.command,
            f"{verb.capitalize()} it",
            str(asked.refused) if asked.refused else None,
        )

    def _find_work(self, verb: str, on: str, question: VerbQuestion) -> Do:
        if verb in QUESTIONS:
            return partial(run_command, self._config, question.command)
        return partial(self._control, ControlVerb(verb), on)

    def _control(self, verb: ControlVerb, on: str) -> Lines:
        with self._pipeline.reopened() as pipeline:
            return [control.act(pipeline, verb, on, f"{_read_user()}, on the page")]

    async def _ask(self, request: Request) -> Response:
        return await self._answer(request, self._ask_now)

    async def _act(self, request: Request) -> Response:
        return await self._answer(request, self._begin)

    async def _answer(self, request: Request, answer: Answer) -> Response:
        if not self._door.may_act(request):
            return refuse(403, "open the address with the token, as cdc serve --act has printed it")
        verb, on = request.path_params["verb"], request.query_params.get("on", "")
        if verb not in NAMES:
            return refuse(404, f"there is no verb {verb}")
        try:
            # asking takes as long as the parts take
            return await run_in_threadpool(answer, verb, on)
        except CdcError as error:
            return refuse(409, str(error))

    def _ask_now(self, verb: str, on: str) -> Response:
        return JSONResponse(self.ask(verb, on).as_json())

    def _begin(self, verb: str, on: str) -> Response:
        question = self.ask(verb, on)
        # asked again: things may have changed since the dialog opened
        if question.check:
            return refuse(409, question.check)
        return JSONResponse(self._runs.begin(verb, on, self._find_work(verb, on, question)).as_json(), 202)

    async def _show_run(self, request: Request) -> Response:
        if not self._door.may_act(request):
            return refuse(403, "open the address with the token")
        run = self._runs.find(request.path_params["number"])
        return JSONResponse(run.as_json()) if run else refuse(404, "there is no such run: cdc serve was started since")


def _read_user() -> str:
    try:
        return getpass.getuser()
    # of a user id without a name
    except (KeyError, OSError):
        return "somebody"

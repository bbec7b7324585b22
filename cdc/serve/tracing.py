"""Where one row is, for whoever asks with its key: places and times, never its values."""

import shlex
import threading
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cdc.core.errors import CdcError
from cdc.core.table import TableName
from cdc.run.pipeline import Pipeline
from cdc.run.trace.trace import trace_row
from cdc.serve.guard import refuse

MOST_MESSAGES: Final = 200_000
"""Of each partition, the newest that are read: some seconds."""


class Tracer:
    """Traces one row at a time: a trace reads the log, and a page asks as often as somebody clicks."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._busy = threading.Lock()

    @property
    def route(self) -> Route:
        return Route("/trace", self._trace)

    async def _trace(self, request: Request) -> Response:
        table, key = (request.query_params.get(name, "") for name in ("table", "key"))
        return await run_in_threadpool(self._answer, table, key)

    def _answer(self, table: str, key: str) -> Response:
        if not self._busy.acquire(blocking=False):
            return refuse(409, "another row is being traced; try again when it is done")
        try:
            values = shlex.split(key)
            with self._pipeline.reopened() as pipeline:
                found = trace_row(pipeline, TableName.parse(table), values, MOST_MESSAGES)
            return JSONResponse(found.as_json(values=False))
        except ValueError:
            return refuse(409, "a quote in the key has no end")
        except CdcError as error:
            return refuse(409, str(error))
        finally:
            self._busy.release()

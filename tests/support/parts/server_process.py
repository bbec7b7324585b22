"""A server of a test as a process of its own, which answers over HTTP."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from cdc.https import tls_context
from tests.support.waiting import until


@contextmanager
def run_server(command: Sequence[str], endpoint: str, log: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run it as long as the context lasts, which begins when it answers; fails with its log where it ends before."""
    with log.open("w") as out:
        process = psutil.Popen(
            command, cwd=log.parent, env={**os.environ, **environ}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: process.poll() is not None or _answers(endpoint), f"{endpoint} answers")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(60)


def _answers(endpoint: str) -> bool:
    try:
        httpx.get(endpoint, verify=tls_context())
    except httpx.TransportError:
        return False
    return True

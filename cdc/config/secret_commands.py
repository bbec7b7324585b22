"""Helper programs that print a secret: `${exec:program argument …}`, run without a shell."""

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

SECONDS: Final = 10.0
"""How long a program may take: a login waits for it."""
LONGEST_BYTES: Final = 64 * 1024


class NoSecretError(Exception):
    """A program has printed no secret; the text is half a sentence. It shows nothing that the program has printed."""


_printed = dict[tuple[str, Path], str]()


def recall(command: str, folder: Path) -> str:
    """The output of the command's last run in this process, which is begun if there was none; see `run`.

    Programs read the file with every `cdc.wait`; who is refused a login runs the command again.
    """
    return _printed.get((command, folder)) or run(command, folder)


def run(command: str, folder: Path) -> str:
    """Run the command in the folder; returns what it prints, without its last line break. Raises NoSecretError."""
    _printed[command, folder] = printed = _run(command, folder)
    return printed


def _run(command: str, folder: Path) -> str:
    words = _split(command)
    shown = f"its program {words[0]}"
    try:
        process = subprocess.Popen(  # noqa: S603
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # it may quote the secret
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise NoSecretError(f"{shown} does not start: {(error.strerror or 'error').lower()}") from None
    return _read(process, shown)


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NoSecretError(f"its command cannot be taken apart: {str(error).lower()}") from None
    if not words:
        raise NoSecretError("it names no program")
    return words


def _read(process: "subprocess.Popen[bytes]", shown: str) -> str:
    with process:
        try:
            printed, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise NoSecretError(f"{shown} has printed nothing whole within {SECONDS:.0f} s") from None
        finally:
            # with what it has started: a pipe that a child holds open would be waited for
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise NoSecretError(f"{shown} ends with exit code {process.returncode}; run it by hand")
    return _decode(printed, shown)


def _decode(printed: bytes, shown: str) -> str:
    if len(printed) > LONGEST_BYTES:
        raise NoSecretError(f"{shown} prints more than {LONGEST_BYTES // 1024} KiB")
    try:
        text = printed.decode().removesuffix("\n").removesuffix("\r")
    except ValueError:
        raise NoSecretError(f"{shown} prints what is not UTF-8 text") from None
    if not text:
        raise NoSecretError(f"{shown} prints nothing")
    return text

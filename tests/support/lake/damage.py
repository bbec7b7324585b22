"""Damage to files on a disk, done in place, so that processes with a mapping see it."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

KINDS = ("flip", "flip many", "zeros", "cut off", "longer", "swap", "lose")


@dataclass(frozen=True)
class Damage:
    """A kind of damage, and numbers that choose its place."""

    kind: str
    file: int
    at: int
    other: int

    def do(self, folder: Path, others: Sequence[Path] = ()) -> None:
        """Damage one file of the folder; `others` are folders whose files may take its place."""
        files = sorted(path for path in folder.glob("*") if path.is_file())
        if not files:
            return
        file = files[self.file % len(files)]
        if self.kind == "lose":
            file.unlink()
            return
        foreign = sorted(path for source in (folder, *others) for path in source.glob("*") if path.is_file())
        content = file.read_bytes() if self.kind != "swap" else foreign[self.other % len(foreign)].read_bytes()
        with file.open("r+b") as opened:
            opened.truncate(opened.write(self.apply_to(content)))

    def apply_to(self, content: bytes) -> bytes:
        """The damaged bytes."""
        at, damaged = self.at % max(len(content), 1), bytearray(content)
        match self.kind:
            case "flip":
                damaged[at : at + 1] = bytes(byte ^ (1 << self.other % 8) for byte in damaged[at : at + 1])
            case "flip many":
                for place in range(at % 97, len(damaged), 97):
                    damaged[place] ^= 1 << (place + self.other) % 8
            case "zeros":
                damaged[at : at + 512] = bytes(len(damaged[at : at + 512]))
            case "cut off":
                del damaged[at:]
            case "longer":
                damaged += bytes(self.other % 100 + 1)
        return bytes(damaged)


damages = st.builds(
    Damage, st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 1_000_000), st.integers(0, 1_000_000)
)


def back_up(folder: Path, at: Path) -> Path:
    """Copy a folder as it is now; returns the copy's path. A missing folder has an empty copy."""
    if folder.exists():
        shutil.copytree(folder, at)
    return at

"""Files of the machine that follows: lost, older, damaged; and its disk, full."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from random import Random

from cdc.torture.faults.ground import Ground, LeftOutError
from cdc.torture.schedule import PlannedFault
from cdc.torture.site import TortureSite, fill

BITS = 64


def back_up_state(site: TortureSite) -> None:
    """Copy the folder of state as it is now: what `old_state` puts back."""
    old = _backup(site)
    shutil.rmtree(old, ignore_errors=True)
    # files come and go meanwhile, as under any backup of a folder in use
    with suppress(shutil.Error):
        shutil.copytree(site.state, old)


@contextmanager
def lose_state(ground: Ground, _: PlannedFault) -> Iterator[None]:
    """The folder of state is gone, after a kill."""
    ground.follow.kill()
    shutil.rmtree(ground.site.state, ignore_errors=True)
    yield


@contextmanager
def old_state(ground: Ground, _: PlannedFault) -> Iterator[None]:
    """The folder of state is put back as it was some time ago, after a kill."""
    ground.follow.kill()
    shutil.rmtree(ground.site.state, ignore_errors=True)
    if (backup := _backup(ground.site)).exists():
        shutil.copytree(backup, ground.site.state)
    yield


@contextmanager
def damage_index(ground: Ground, fault: PlannedFault) -> Iterator[None]:
    """Bits of a file of a key index flip; every other time while it is in use."""
    if fault.number % 2:
        ground.follow.kill()
    random = Random(fault.number)  # noqa: S311 - chance that comes again
    files = sorted(each for each in (ground.site.state / "index").rglob("*") if each.is_file())
    if files:
        # a file may go before it is opened
        with suppress(FileNotFoundError):
            flip_bits(random.choice(files), random)
    yield


def full_disk(ground: Ground, _: PlannedFault) -> AbstractContextManager[None]:
    if ground.site.disk is None:
        raise LeftOutError("a small disk can only be mounted by root", "run it as root, in a container")
    return fill(ground.site.disk)


def flip_bits(file: Path, random: Random) -> None:
    """Flip bits of a file that chance chooses."""
    # in place, so that a process with a mapping sees it
    with file.open("r+b") as opened:
        content = bytearray(opened.read())
        for _ in range(min(BITS, len(content))):
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        opened.seek(0)
        opened.write(content)


def _backup(site: TortureSite) -> Path:
    return site.folder / "state.old"

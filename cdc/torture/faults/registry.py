"""Each kind of fault of a schedule, and what causes it."""

from collections.abc import Mapping
from typing import Final

from cdc.torture.faults import clock, files, links, processes, servers
from cdc.torture.faults.ground import Cause

CAUSES: Final[Mapping[str, Cause]] = {
    "kill": processes.kill,
    "stop": processes.stop,
    "cut": links.cut,
    "silence": links.silence,
    "slow": links.slow,
    "lose-state": files.lose_state,
    "old-state": files.old_state,
    "damage-index": files.damage_index,
    "full-disk": files.full_disk,
    "set-clock": clock.set_clock,
    "close-index": servers.close_index,
    "add-partitions": servers.add_partitions,
    "delete-topic": servers.delete_topic,
    "forget-offsets": servers.forget_offsets,
    "drop-slot": servers.drop_slot,
}

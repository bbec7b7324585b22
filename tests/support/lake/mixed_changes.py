"""Transactions of all kinds of changes, at random."""

import random
from collections.abc import Mapping

from tests.support.histories import THINGS
from tests.support.lake.tables import row
from tests.support.model import UNCHANGED, Change, CommitOrder, Delete, Insert, Key, Row, SentRow, Update


def mix_changes(seed: int, rank: int, rows: Mapping[Key, Row]) -> list[Change]:
    """A transaction with all kinds of changes, unsent values and changed keys included."""
    chance, changes = random.Random(seed * 1000 + rank), list[Change]()
    keys, fresh = sorted(rows), 1000 * rank
    for key in chance.sample(keys, min(len(keys), 30)):
        here, small = CommitOrder(rank, len(changes) + 1), rank
        match chance.choice(["update", "unsent", "delete", "move", "insert"]):
            case "update":
                changes.append(Update(THINGS.name, here, key, {"id": key[0], "small": small, "big": f"at {rank}"}))
            case "unsent":
                changes.append(Update(THINGS.name, here, key, {"id": key[0], "small": small, "big": UNCHANGED}))
            case "delete":
                changes.append(Delete(THINGS.name, here, key))
            case "move":
                fresh += 1
                changes.append(Delete(THINGS.name, here, key, (fresh,)))
                moved: SentRow = {"id": fresh, "small": small, "big": UNCHANGED}
                changes.append(Insert(THINGS.name, CommitOrder(rank, here.total_order + 1), (fresh,), moved, key))
            case "insert":
                fresh += 1
                changes.append(Insert(THINGS.name, here, (fresh,), row(fresh, "new")))
    return changes

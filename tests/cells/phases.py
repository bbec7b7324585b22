"""What goes on while a fault happens: one function a phase that is no verb."""

from collections.abc import Callable
from typing import Final

from tests.cells.cell import STREAMS
from tests.cells.world import World


def steady(world: World) -> None:
    number = world.next_number()
    world.run(
        f"UPDATE orders SET note = 'note {number}' WHERE id % 20 = {number % 20}",
        f"UPDATE customers SET name = 'customer {number}' WHERE id = {number % 10}",
    )


def large(world: World) -> None:
    """One transaction of more changes than the driver reads by itself."""
    first = 1_000_000 + 10_000 * world.next_number()
    world.run(
        f"BEGIN; DELETE FROM orders WHERE id >= 1000000;"
        f" INSERT INTO orders SELECT g, g % 10, g % 200, 'bulk' FROM generate_series({first}, {first + 2500}) g; COMMIT"
    )


def schema(world: World) -> None:
    """A column comes, which widens a table, and another one goes, for which it is copied again."""
    number = world.next_number()
    world.run(
        f"ALTER TABLE customers ADD COLUMN added{number} text",
        f"UPDATE customers SET added{number} = 'new' WHERE id % 2 = 0",
        f"ALTER TABLE customers DROP COLUMN added{number}",
        f"UPDATE customers SET name = 'after {number}' WHERE id % 3 = 0",
    )


def joining(world: World) -> None:
    """A table is dropped and made again with other columns: it joins anew."""
    number = world.next_number()
    world.run(
        "DROP TABLE joined",
        f"CREATE TABLE joined (id int PRIMARY KEY, what{number} text)",
        f"INSERT INTO joined SELECT n, 'joined {number}' FROM generate_series(1, 200) AS n",
    )


def restart(world: World) -> None:
    """A stream is asked to start again."""
    with world.pipeline.opened() as opened:
        requests = opened.requests
    requests.restart(STREAMS[world.next_number() % len(STREAMS)])


ACTIONS: Final[dict[str, Callable[[World], None]]] = {
    "steady": steady,
    "large": large,
    "schema": schema,
    "joining": joining,
    "catch_up": steady,
    "maintenance": steady,
}

"""A small shop: the commands of its customers, the events that they become, and the state that events add up to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

ITEMS: Final = 5
STOCK: Final = 6  # so many are there of each item
CARTS: Final = 16
AFTERWARDS: Final = 9  # so many carts do something else, after all have wanted an item


class Deed(StrEnum):
    """A deed that is commanded, and then happens; only the shop undoes."""

    PUT = "put"
    TAKE_OUT = "take out"
    EXPIRE = "expire"
    ORDER = "order"
    UNDO = "undo the order"


@dataclass(frozen=True, slots=True)
class Act:
    """A command: somebody wants it. The same as an event: it has happened."""

    deed: Deed
    cart: int
    item: int


@dataclass(slots=True)
class Shop:
    """The state: how many are left of each item, less than nothing if more was sold, and the items in each cart."""

    left: list[int] = field(default_factory=lambda: [STOCK] * ITEMS)
    in_carts: set[tuple[int, int]] = field(default_factory=set)

    def allows(self, command: Act) -> bool:
        """Whether a command may become an event."""
        is_in_cart = (command.cart, command.item) in self.in_carts
        if command.deed is Deed.PUT:
            return not is_in_cart and self.left[command.item] > 0
        return is_in_cart

    def take_in(self, event: Act) -> None:
        """Change the state as an event says, which has happened: so it is not asked whether it may."""
        place = event.cart, event.item
        if event.deed is Deed.PUT:
            self.in_carts.add(place)
            self.left[event.item] -= 1
        elif event.deed is Deed.UNDO:
            self.left[event.item] += 1
        else:
            self.in_carts.discard(place)
            self.left[event.item] += event.deed is not Deed.ORDER


def fold(events: Iterable[Act], begun: Shop | None = None) -> Shop:
    """The state after these events, from the empty shop or from a snapshot."""
    shop = Shop([*begun.left], {*begun.in_carts}) if begun else Shop()
    for event in events:
        shop.take_in(event)
    return shop


def plan_commands(random: Random) -> list[Act]:
    """Plan commands: all carts want an item, more than there are; then some take it out, let it expire, or order it."""
    commands = []
    for item in range(ITEMS):
        carts = random.sample(range(CARTS), CARTS)
        commands += [Act(Deed.PUT, cart, item) for cart in carts]
        deeds = [Deed.TAKE_OUT, Deed.EXPIRE, Deed.ORDER]
        # the first ones have it; whether others have it, who can say
        later = [*carts[: len(deeds)], *random.sample(carts[len(deeds) :], AFTERWARDS - len(deeds))]
        acts = [Act(deeds[number % len(deeds)], cart, item) for number, cart in enumerate(later)]
        commands += random.sample(acts, len(acts))
    return commands


def count_beyond(events: Sequence[Act], begun: Shop | None = None) -> int:
    """Count the items in carts beyond the stock, at the worst moment of each item, from the beginning or later."""
    shop = fold((), begun)
    worst = [min(left, 0) for left in shop.left]
    for event in events:
        shop.take_in(event)
        worst[event.item] = min(worst[event.item], shop.left[event.item])
    return -sum(worst)

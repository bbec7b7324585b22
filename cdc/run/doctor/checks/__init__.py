"""The checks, a module for each category; a new check is one function in one of them."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final

BESIDE: Final = ("slot_budget",)
"""Modules of a category that has more than one."""
CATEGORIES: Final = (
    *("source", "postgres", "role", "publication", "slot", "standby", "triggers", "tables"),
    *("kafka", "connect", "spark", "lake", "store", "catalog", "search", "machine"),
)


def load_all() -> Sequence[str]:
    """Register the checks of all categories; returns these in their order."""
    for module in (*CATEGORIES, *BESIDE):
        import_module(f"{__name__}.{module}")
    return CATEGORIES

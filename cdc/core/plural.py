"""Counts in messages."""


def format_count(number: int, thing: str) -> str:
    """`1 change`, `2,000 changes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"

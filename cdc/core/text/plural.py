"""Counts and sizes in messages."""


def format_count(number: int, thing: str) -> str:
    """`1 change`, `2,000 changes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def format_bytes(number: float) -> str:
    """`472 bytes`, `22.8 GiB`."""
    size, units = float(number), iter(("bytes", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while abs(size) >= 1024 and unit != "TiB":
        size, unit = size / 1024, next(units)
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"

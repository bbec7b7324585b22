"""How Debezium reads its lists of names (`CustomKeyMapper` in Key.java, `Predicates.includes`, `RegExSplitter`)."""

import re
from collections.abc import Callable, Iterator, Sequence

_ENTRY = re.compile(r"\s*([^:]+):([^:,]+(,[^:,]+)*)\s*")


def read_key(entries: str, table: str, columns: Sequence[str]) -> list[str]:
    """The columns that become the key of a table, in the key's order; none if its primary key does."""
    patterns = list[Callable[[str], bool]]()
    for entry in entries.split(";"):
        assert _ENTRY.fullmatch(entry), f"Connect refuses {entry}"
        of, _, names = entry.partition(":")
        patterns += [read_tables(f"{of}.{_trim(name)}") for name in names.split(",")]
    return [column for matches in patterns for column in columns if matches(f"{table}.{column}")]


def read_tables(patterns: str) -> Callable[[str], bool]:
    """Does one of the patterns of a list match a name?"""
    read = [_to_python(_trim(part).replace("\\,", ",")) for part in _split(patterns)]
    return lambda name: any(pattern.fullmatch(name) for pattern in read)


def _split(patterns: str) -> Iterator[str]:
    """Cut at commas, but not behind a backslash."""
    yield from re.findall(r"(?:\\.|[^\\,])+", patterns, re.DOTALL)


def _trim(text: str) -> str:
    # as Java does
    return text.strip("".join(map(chr, range(0x21))))


def _to_python(pattern: str) -> re.Pattern[str]:
    """A pattern of Java's: Python has another form for a character's number, and no flag in the middle."""
    numbers = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: rf"\U{int(found[1], 16):08x}", pattern)
    # whoever does not switch case off ignores it
    return re.compile(numbers.removeprefix("(?-i)"), 0 if "(?-i)" in numbers else re.IGNORECASE | re.ASCII)

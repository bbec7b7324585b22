"""The texts that the race prints."""

from collections.abc import Mapping, Sequence

from cdc.demo.race.clients import TimedWrite
from cdc.demo.race.outcome import RaceResult
from cdc.demo.race.schedule import ORDERS, ForcedPair, Schedule, Store, is_diverging
from cdc.demo.steps import align_columns

PROLOGUE = """\
Two clients set X at the same time, one to A, the other to B. Each writes to a database, and then to the search index
beside it. Nobody decides whose write comes last: each store does so for itself, by the order in which it is reached.
("Designing Data-Intensive Applications", chapter 11, figure 11-4)
"""


def format_timeline(pair: ForcedPair, writes: Sequence[TimedWrite]) -> str:
    """Format the writes of one pair as a table, with its end."""
    rows = [
        (f"{m.seconds * 1000:.1f} ms", f"client {m.step.client}", f"{pair.key}={m.value} → {m.step.store}", m.database)
        + ((m.index,) if len(writes) > len(Store) else ())
        for m in writes
    ]
    # as many writes as stores are those of two clients to the database alone: then there is no index
    columns = ("when", "who", "writes", "database has", "index has")[: len(rows[0])]
    return f"{align_columns(columns, rows)}\n{_describe_end(pair, writes[-1], is_dual=len(writes) > len(Store))}\n"


def _describe_end(pair: ForcedPair, last: TimedWrite, *, is_dual: bool) -> str:
    if not is_dual:
        return f"The database has decided: {pair.key} is {last.database}. Its log says so, and the index follows it."
    if last.database == last.index:
        return f"Both stores say {pair.key} is {last.database}."
    return (
        f"For the database {pair.key} is {last.database}, for the index {last.index}. No error was raised, and nothing"
        " will ever mend it."
    )


def describe_damage(
    plan: Schedule, table: Mapping[str, str], index: Mapping[str, str], different: Sequence[str]
) -> str:
    """Describe the differences that dual writes have left in the two stores."""
    keys_apart = set(different)
    forced, raced, failed = ([write.key for write in group] for group in (plan.forced, plan.raced, plan.failing))
    diverging = sum(is_diverging(order) for order in ORDERS)
    examples = [_find_example(keys, table, index, keys_apart) for keys in (raced, failed)]
    lines = [
        "Both stores read back, with nothing on its way any more:",
        f"forced, one pair an order:  {len(keys_apart & set(forced))} of {len(forced)} differ"
        f" ({diverging} of the {len(ORDERS)} possible orders end so)",
        f"raced, as it comes:         {len(keys_apart & set(raced)):,} of {len(raced):,} differ{examples[0]}",
        f"failed between two writes:  {len(keys_apart & set(failed)):,} of {len(failed):,} differ{examples[1]}",
    ]
    return "\n".join(lines)


def _find_example(keys: Sequence[str], table: Mapping[str, str], index: Mapping[str, str], keys_apart: set[str]) -> str:
    key = next((key for key in keys if key in keys_apart), None)
    return f", such as {key}: database {table.get(key)}, index {index.get(key)}" if key else ""


def describe_outcome(outcome: RaceResult) -> str:
    """Describe the result in a sentence or two."""
    if outcome.cdc_diverged:
        return f"{outcome.cdc_diverged:,} keys differ through the log as well: that must not be, and is a fault."
    return (
        "One leader decides the order, its log keeps it, and whoever follows the log ends where the leader is.\n"
        "Nobody wrote to two stores, so nothing could fall between them."
    )


def count_pairs(outcome: RaceResult) -> list[tuple[str, int, int]]:
    """Rows for a table: the kind of write, keys tried, and keys that differ for ever."""
    return [
        ("pairs written by dual writes", outcome.pairs, outcome.dual_write_diverged),
        ("dual writes that failed halfway", outcome.failures, outcome.partial_failure_diverged),
        ("all of these through the log", outcome.pairs + outcome.failures, outcome.cdc_diverged),
    ]

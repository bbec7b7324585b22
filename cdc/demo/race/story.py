"""What the race tells, in plain words."""

from collections.abc import Mapping, Sequence

from cdc.demo.race.clients import Moment
from cdc.demo.race.outcome import Outcome
from cdc.demo.race.schedule import ORDERS, Forced, Schedule, Store, ends_apart
from cdc.demo.steps import aligned

PROLOGUE = """\
Two clients set X at the same time, one to A, the other to B. Each writes to a database, and then to the search index
beside it. Nobody decides whose write comes last: each store does so for itself, by the order in which it is reached.
("Designing Data-Intensive Applications", chapter 11, figure 11-4)
"""


def timeline(pair: Forced, moments: Sequence[Moment]) -> str:
    """How the writes of one pair went, and how it ended."""
    rows = [
        (f"{m.seconds * 1000:.1f} ms", f"client {m.step.client}", f"{pair.key}={m.value} → {m.step.store}", m.database)
        + ((m.index,) if len(moments) > len(Store) else ())
        for m in moments
    ]
    columns = ("when", "who", "writes", "database has", "index has")[: len(rows[0])]
    return f"{aligned(columns, rows)}\n{_ending(pair, moments[-1], len(moments) > len(Store))}\n"


def _ending(pair: Forced, last: Moment, dual: bool) -> str:
    if not dual:
        return f"The database has decided: {pair.key} is {last.database}. Its log says so, and the index follows it."
    if last.database == last.index:
        return f"Both stores say {pair.key} is {last.database}."
    return (
        f"For the database {pair.key} is {last.database}, for the index {last.index}. No error was raised, and nothing"
        " will ever mend it."
    )


def damage(plan: Schedule, table: Mapping[str, str], index: Mapping[str, str], different: Sequence[str]) -> str:
    """What dual writes left behind, as read back from both stores."""
    apart = set(different)
    forced, raced, failed = ([each.key for each in group] for group in (plan.forced, plan.raced, plan.failing))
    bad = sum(ends_apart(order) for order in ORDERS)
    first = [_example(keys, table, index, apart) for keys in (raced, failed)]
    lines = [
        "Both stores read back, with nothing on its way any more:",
        f"forced, one pair an order:  {len(apart & set(forced))} of {len(forced)} differ"
        f" ({bad} of the {len(ORDERS)} possible orders end so)",
        f"raced, as it comes:         {len(apart & set(raced)):,} of {len(raced):,} differ{first[0]}",
        f"failed between two writes:  {len(apart & set(failed)):,} of {len(failed):,} differ{first[1]}",
    ]
    return "\n".join(lines)


def _example(keys: Sequence[str], table: Mapping[str, str], index: Mapping[str, str], apart: set[str]) -> str:
    key = next((key for key in keys if key in apart), None)
    return f", such as {key}: database {table.get(key)}, index {index.get(key)}" if key else ""


def verdict(outcome: Outcome) -> str:
    """The end of the story."""
    if outcome.cdc_diverged:
        return f"{outcome.cdc_diverged:,} keys differ through the log as well: that must not be, and is a fault."
    return (
        "One leader decides the order, its log keeps it, and whoever follows the log ends where the leader is.\n"
        "Nobody wrote to two stores, so nothing could fall between them."
    )


def counts(outcome: Outcome) -> list[tuple[str, int, int]]:
    """How many keys were tried, and how many of them differ for ever."""
    return [
        ("pairs written by dual writes", outcome.pairs, outcome.dual_write_diverged),
        ("dual writes that failed halfway", outcome.failures, outcome.partial_failure_diverged),
        ("all of these through the log", outcome.pairs + outcome.failures, outcome.cdc_diverged),
    ]

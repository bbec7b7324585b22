"""Sample status documents: the states of DESIGN's table, each as the watch would say it."""

import json
import math
import random
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]
NOW = datetime(2026, 3, 14, 3, 12, 40, tzinfo=UTC)
GIB, MIB, MINUTES = 2**30, 2**20, 360
INCIDENT: Json = json.loads((Path(__file__).parent / "incident.json").read_text())
EMPTY: tuple[str, ...] = ("problems", "letters", "verifications", "views", "events")


def at(seconds_ago: float) -> str:
    return f"{NOW - timedelta(seconds=seconds_ago):%Y-%m-%dT%H:%M:%SZ}"


def wander(seed: int, base: float, noise: float) -> list[float]:
    """A quiet line with a slow wave and some noise: six hours, a point a minute."""
    chance = random.Random(seed)
    return [
        round(max(base * (1 + 0.12 * math.sin(i / 47 + seed) + chance.gauss(0, noise)), 0.01), 2)
        for i in range(MINUTES)
    ]


def series(names: tuple[str, ...] = ("lake", "search", "latest", "alerts")) -> Json:
    lines = {
        name: {"p50": wander(i, 1.4 + i * 0.3, 0.02), "p99": wander(i + 9, 2.7 + i * 0.4, 0.03)}
        for i, name in enumerate(names)
    }
    slot = [abs(round(each * MIB)) for each in wander(20, 40, 0.3)]
    arrived = [round(each) for each in wander(21, 18_700, 0.06)]
    return {
        "start": at(MINUTES * 60),
        "step_seconds": 60,
        "freshness": lines,
        "slot_bytes": slot,
        "changes_per_minute": {"arrived": arrived},
    }


def incident() -> Json:
    """A stopped table, a slot that fills, a follower behind, dead letters, a late verification, a copy."""
    found = deepcopy(INCIDENT) | {"series": series()}
    fresh, slot = found["series"]["freshness"]["alerts"], found["series"]["slot_bytes"]
    for line in fresh.values():
        line[-38:] = [2.2 + 820 * min(i / 22, 1) - 218 * max(i - 22, 0) / 16 for i in range(38)]
    slot[-330:] = [round((i + 1) * 41.2 * GIB / 330) for i in range(330)]
    return found


def healthy() -> Json:
    # as the watch writes it once there is a copy
    found = incident() | {"series": series(), "problems": {}, "letters": {}, "steps": []}
    found["verdict"] = {
        "level": "ok",
        "title": "Everything is current",
        "detail": "All 12 tables are followed. A commit is seen in the lake after 1.4 s, in search after 2.0 s.",
    }
    found["slot"] = {
        "name": "cdc_shop",
        "state": "ok",
        "word": "moves on",
        "active": True,
        "retained_bytes": 38 * MIB,
        "limit_bytes": 64 * GIB,
        "bytes_per_second": 0,
        "wal_status": "reserved",
    }
    calm = {"state": "ok", "word": "current", "behind_seconds": 0, "changes_waiting": 0, "bytes_waiting": 0}
    calm |= {"hop_seconds": 0.8, "p50_seconds": 2.2, "p99_seconds": 4.0, "day": found["followers"]["search"]["day"]}
    alerts = found["followers"]["alerts"] | calm
    found["followers"]["alerts"] = {
        k: v for k, v in alerts.items() if k not in {"trend", "caught_up_in_seconds", "why"}
    }
    found["parts"]["lake"]["line"] = "12 of 12 tables followed"
    orders = found["tables"]["public.orders"]
    for name in ("public.invoices", "public.shipments"):
        found["tables"][name] = orders | {"rows": found["tables"][name]["rows"], "in": ["lake", "latest"]}
    for key in ("held_keys", "letters"):
        found["tables"]["public.order_events"].pop(key)
    for each in found["verifications"].values():
        each |= {"at": at(6 * 3600)}
    found["events"] = [each for each in found["events"] if "level" not in each]
    return found


def two_tables() -> Json:
    found = healthy()
    return found | {"tables": {name: found["tables"][name] for name in ("public.orders", "public.prices")}}


def many() -> Json:
    """2,000 tables: three stopped, five copied, one joins, two without a copy, one with held keys."""
    found, chance = healthy(), random.Random(7)
    tables: Json = {f"area{i // 250}.table_{i:04}": _plain_table(chance) for i in range(2000)}
    names = iter(tables)
    for reason in ("column amount has NaN, which no follower holds", "its key was dropped", "a data file is gone"):
        tables[next(names)] |= {"state": "stopped", "since": at(900), "reason": reason, "changes_waiting": 90}
    for done in (0.08, 0.22, 0.43, 0.71, 0.93):
        copy = {"phase": "rows", "done_rows": round(4e6 * done), "all_rows": 4_000_000, "rows_per_second": 2100}
        copy |= {"seconds_left": round(4e6 * (1 - done) / 2100), "began_at": at(1900)}
        tables[next(names)] |= {"state": "copying", "rows": 4_000_000, "since": at(1900), "copy": copy}
    tables[next(names)] |= {"state": "joining", "since": at(40)}
    for _ in range(2):
        tables[next(names)] |= {"state": "listed", "since": at(86000)}
    tables[next(names)] |= {"held_keys": 12, "letters": 31}
    found["tables"] = tables
    found["pipeline"]["name"] = "group"
    found["verdict"] = {"level": "now", "title": "3 of 2,000 tables are stopped", "detail": "1,989 are followed."}
    found["problems"] = {
        "tables.stopped": {
            "order": 1,
            "level": "now",
            "object": {"kind": "tables", "name": "stopped"},
            "what": "3 of 2,000 tables are stopped",
            "since": at(900),
            "hurts": "Their readers see them as of then; the other tables go on.",
            "remedy": "See each one's reason.",
        }
    }
    return found


def _plain_table(chance: random.Random) -> Json:
    rate = min(round(chance.paretovariate(0.9) - 1), 9000)
    shown: Json = {"day": [rate] * 24} if rate > 20 else {}
    times = {"since": at(86400 * 12), "changed_at": at(chance.uniform(4, 9e5)), "verified_at": at(6 * 3600)}
    return (
        shown | times | {"rows": round(10 ** chance.uniform(1.5, 8.2)), "changes_per_minute": rate, "verdict": "equal"}
    )


def still() -> Json:
    """The capture stands still: everything says that it runs, and no data moves."""
    found, since = healthy(), at(1475)
    found["verdict"] = {
        "level": "now",
        "title": "The capture stands still since 02:48:05",
        "detail": "No commit for 24 min.",
    }
    cause = {"state": "still", "word": "stands still", "since": since, "line": "says it runs, task 0 running"}
    found["parts"]["capture"] |= cause | {"is_cause": True}
    found["parts"]["log"] |= {"state": "waits", "word": "waits for capture", "since": since}
    found["parts"]["lake"] |= {"state": "waits", "word": "waits for the log", "since": since}
    for part in ("capture", "log", "lake"):
        found["parts"][part].pop("hop_seconds", None)
    for each in (*found["followers"].values(), *found["views"].values()):
        each |= {"state": "waits", "word": "as of 02:48", "since": since, "trend": "waits for the log"}
    found["problems"] = {
        "capture.still": {
            "order": 1,
            "level": "now",
            "object": {"kind": "part", "name": "capture"},
            "what": "The capture stands still",
            "since": since,
            "why": "pid 50113 (migration) locks the heartbeat table.",
            "hurts": "Nobody sees commits since 02:48:05. The slot keeps them.",
            "remedy": "End that session, in the source:",
            "command": "SELECT pg_terminate_backend(50113);",
            "language": "sql",
            "verb": "restart",
        }
    }
    return found


def _stop_capture(state: str, line: str, title: str, problem: Json) -> Json:
    """The capture is the cause, and what stands behind it waits."""
    found, since = still(), at(1475)
    found["verdict"] = {"level": "now", "title": title, "since": since}
    found["parts"]["capture"] |= {"state": state, "word": state, "line": line}
    own = {"order": 1, "level": "now", "object": {"kind": "part", "name": "capture"}, "what": title, "since": since}
    found["problems"] = {f"part.{state}:capture": own | problem | {"language": "sh"}}
    return found


def paused() -> Json:
    """Somebody has paused the capture; and one follower, by our verb."""
    remedy = {"remedy": "`cdc resume capture` lets it go on", "command": "cdc resume capture", "verb": "resume"}
    found = _stop_capture("paused", "by somebody in Kafka Connect", "The capture is paused", remedy)
    found["followers"]["search"] |= {"state": "paused", "word": "paused", "why": "search is paused since 02:50:00 UTC"}
    del found["followers"]["search"]["trend"]
    return found


def failed() -> Json:
    """The connector has failed; a follower's stream does not go on."""
    why = "the server certificate has expired"
    remedy = {"why": f"connector cdc-shop failed: {why}", "remedy": "mend the cause", "command": "cdc bootstrap"}
    found = _stop_capture("failed", why, "The capture failed", remedy)
    stops = {"state": "failed", "word": "does not go on", "why": "the disk is full", "since": at(600)}
    found["followers"]["latest"] |= stops
    del found["followers"]["latest"]["trend"]
    return found


def behind() -> Json:
    """A follower falls behind while all else is current."""
    found = healthy()
    found["verdict"] = {"level": "today", "title": "search is behind by 48 min"}
    late = {"state": "behind", "word": "behind", "behind_seconds": 2890, "changes_waiting": 7121}
    found["followers"]["search"] |= late | {"trend": "falling behind", "since": at(2890)}
    found["followers"]["search"] |= {"arrives_per_second": 96, "applies_per_second": 40}
    return found


def silent() -> Json:
    """A part does not answer: its numbers are the last known ones."""
    found, since = healthy(), at(388)
    found["verdict"] = {"level": "now", "title": "OpenSearch does not answer since 03:06:12"}
    for name in ("search", "alerts"):
        gone = {
            "state": "silent",
            "word": "does not answer",
            "since": since,
            "checked_at": since,
            "behind_seconds": 388,
        }
        found["followers"][name] |= gone | {"changes_waiting": 98_000}
        for line in found["series"]["freshness"][name].values():
            line[-6:] = [None] * 6
    return found


def new() -> Json:
    """Nothing is captured yet."""
    found = healthy() | {key: {} if key != "events" else [] for key in EMPTY}
    found.pop("series")
    found["verdict"] = {"level": "new", "title": "Nothing is captured yet", "detail": "cdc.yaml lists 12 tables."}
    found["slot"] = {"name": "cdc_shop", "state": "new", "word": "does not exist yet"}
    for name, word in (("capture", "not set up"), ("log", "no topics yet"), ("lake", "empty")):
        part = found["parts"][name] | {"state": "new", "word": word, "line": ""}
        found["parts"][name] = {key: value for key, value in part.items() if key not in {"hop_seconds", "since"}}
    kept = ("order", "kind", "what")
    found["followers"] = {
        name: {key: each[key] for key in kept} | {"state": "new", "word": "not filled yet"}
        for name, each in found["followers"].items()
    }
    found["tables"] = {name: {"state": "listed", "rows": each["rows"]} for name, each in found["tables"].items()}
    steps = (("cdc config check", True), ("cdc doctor", True), ("cdc bootstrap", False), ("cdc follow", False))
    found["steps"] = [{"command": command, "text": f"run {command}", "done": done} for command, done in steps]
    return found


SAMPLES: dict[str, Callable[[], Json]] = {
    each.__name__: each for each in (incident, healthy, two_tables, many, still, paused, failed, behind, silent, new)
}

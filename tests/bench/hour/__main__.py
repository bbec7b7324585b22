"""`python -m tests.bench.hour`: an hour of load and kills, measured every few seconds, and verified at its end."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any, Final

from tests.bench.about import about
from tests.bench.goal import Failed
from tests.bench.hour.curve import draw
from tests.bench.hour.faults import TURN, Follower, Killer
from tests.bench.hour.samples import SECONDS, Sampler
from tests.bench.hour.shop import Load, make_pipeline, make_shop, writing
from tests.bench.hour.verdict import judge
from tests.bench.meter.meter import Meter
from tests.bench.plan import OUT
from tests.bench.world.parts import Parts, parts_up
from tests.bench.world.pipeline import Pipeline
from tests.bench.world.visible import cuts_seen
from tests.support.parts.ports import free_port

CUT_SECONDS: Final = 0.5
CATCH_UP_SECONDS: Final = 3600
DIFFERS: Final = 5
"""The exit code of `cdc verify` where rows differ."""


def main() -> int:
    """Do what the command line asks for; 1 where a limit is missed, or something differs."""
    asked = _parse()
    asked.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="cdc-hour-", dir=asked.scratch))
    # Postgres runs as another user where we are root, and has to get in
    folder.chmod(0o755)
    try:
        with Meter() as meter, parts_up(meter, folder) as parts:
            found = _run(asked, parts, meter)
    finally:
        if asked.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    say(json.dumps({name: found[name] for name in found if name not in ("recoveries", "samples")}, indent=1))
    return 0 if found["equal"] and all(found["limits"].values()) else 1


def say(text: str) -> None:
    """A line about the work."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _run(asked: argparse.Namespace, parts: Parts, meter: Meter) -> dict[str, Any]:
    load = Load(asked.rate, 60 * asked.minutes, asked.rows, asked.first_rows or asked.rows // 5)
    say(f"{load.first_rows:,} rows, then {load.rate:,.0f} transactions a second for {asked.minutes:g} min")
    make_shop(parts, load)
    pipeline = make_pipeline(parts, meter, asked.minutes / 60 / 6)
    say(f"bootstrap: {pipeline.bootstrap().seconds:.0f} s")
    follower = Follower(pipeline, free_port())
    killer = Killer(parts, meter, follower, 60 * asked.every / len(TURN), say)
    samples = asked.out / "hour-samples.jsonl"
    with closing(samples.open("w")) as file, cuts_seen(pipeline.cuts, CUT_SECONDS) as cuts:
        began = time.time()
        sampler = Sampler(parts, pipeline, follower, cuts, file, began)
        try:
            follower.start()
            _go_through(load, killer, sampler)
            found = judge(sampler.samples, killer.kills, load, began)
            found |= {"ended_by_itself": [each.as_json() for each in follower.ended], **_verify(pipeline)}
            # with the comparison of every row
            found["verified_after"] = round(time.time() - began - load.seconds, 1)
        finally:
            follower.end()
    found |= {"about": about(), "minutes": asked.minutes}
    (asked.out / "hour.json").write_text(json.dumps(found | {"samples": sampler.samples}, indent=1))
    title = f"{found['rate_reached']:,.0f} of {load.rate:,.0f} transactions/s, {asked.minutes:g} min"
    draw(sampler.samples, found["recoveries"], title, asked.out / "hour.png")
    return found


def _go_through(load: Load, killer: Killer, sampler: Sampler) -> None:
    """Write, kill and look until the time is over; nobody waits for another."""
    ended = Event()
    # its end waits for the killer, who may be starting a part
    with writing(sampler.parts, load), ThreadPoolExecutor(1) as thread:
        killing = thread.submit(killer.run, ended)
        try:
            while (left := load.seconds - (time.time() - sampler.began)) > 0:
                began = time.monotonic()
                sampler.take()
                time.sleep(max(min(SECONDS - (time.monotonic() - began), left), 0.0))
        finally:
            ended.set()
        # an hour without kills is none
        killing.result()


def _verify(pipeline: Pipeline) -> dict[str, Any]:
    """Wait for all followers, and compare every row."""
    say("verify")
    try:
        report = pipeline.verb("verify", "--json", "--wait", str(CATCH_UP_SECONDS), codes=(0, DIFFERS)).json()
    except Failed as failure:
        return {"equal": False, "verify": str(failure)}
    verdicts = {table["verdict"] for tables in report["followers"].values() for table in tables.values()}
    return {"equal": verdicts == {"equal"}, "verify": report}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hour", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=60.0, help="how long writers write")
    add("--rate", type=float, default=1500.0, help="transactions a second that are asked for")
    add("--rows", type=int, default=5_000_000, help="orders that there are at the end, about")
    add("--first-rows", type=int, help="orders that there are at the start; a fifth where left out")
    add("--every", type=float, default=5.0, help="minutes from one kill of a part to its next; the parts take turns")
    add("--out", type=Path, default=OUT, help="where hour.json, hour.png and the samples are written")
    add("--scratch", type=Path, help="where to work; a folder below it is made, and removed at the end")
    add("--keep", action="store_true", help="leave that folder: lake, logs and what each life of cdc follow said")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())

"""`cdc bootstrap` and `cdc follow` in one process, on one Spark: `python -m cdc.lab.derived.following FILE`."""

import os
import sys
from pathlib import Path
from threading import Event, Thread

from cdc.config.file import load
from cdc.core.errors import CdcError
from cdc.progress import SILENT
from cdc.run.copy.bootstrap import bootstrap
from cdc.run.follow.follow import follow
from cdc.run.pipeline import Pipeline, select_followers
from cdc.run.spark.pipeline_session import build_spark_session


def main(config: str) -> None:
    """Copy the tables, and follow them until stdin ends; prints its progress."""
    stopping, is_following = Event(), Event()

    def await_end() -> None:
        # the end of stdin also comes when the lab is killed
        sys.stdin.read()
        stopping.set()
        # a copy may break off at any time
        if not is_following.is_set():
            os._exit(1)

    Thread(target=await_end, daemon=True).start()
    settings = load(Path(config))
    # brief: the lab ends before Java's second compiler pays off
    spark = build_spark_session(settings, "lab", brief=True)
    pipeline = Pipeline(settings, lambda: spark)
    bootstrap(pipeline, _say, SILENT)
    is_following.set()
    follow(pipeline, select_followers(settings, ()), _say, stopping=stopping)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except CdcError as error:
        _say(str(error))
        sys.exit(error.exit_code)

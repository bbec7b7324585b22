"""Postgres' own way to keep a view: REFRESH MATERIALIZED VIEW CONCURRENTLY, again and again.

Settings: conninfo, view. Tells the process of its session, then a line for every refresh: when it began and ended.
"""

import time

import psycopg
from psycopg import sql

from tests.bench.stock.session import tell, told

PAUSE_SECONDS = 0.05
"""Between two refreshes: no core is to be taken for a view that is as good as empty."""


def main() -> None:
    """Refresh until told to stop."""
    settings = told()
    refresh = sql.SQL("REFRESH MATERIALIZED VIEW CONCURRENTLY {}").format(sql.Identifier(settings["view"]))
    with psycopg.connect(settings["conninfo"], autocommit=True) as connection:
        # workers would be other processes, whose seconds nobody could tell from those of the writers
        connection.execute("SET max_parallel_workers_per_gather = 0")
        tell(pid=connection.info.backend_pid)
        while True:
            began = time.time()
            connection.execute(refresh)
            tell(began=began, ended=time.time())
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()

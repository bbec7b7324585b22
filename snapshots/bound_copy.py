"""COPY by libpq, for a login that is bound to its TLS channel: asyncpg, which is faster, has no SCRAM-SHA-256-PLUS."""

from collections.abc import Awaitable, Callable

from psycopg import AsyncConnection, IsolationLevel


async def copy_bound(
    conninfo: str, query: str, snapshot: str, lock_wait: str, take: Callable[[bytes], Awaitable[None]]
) -> None:
    """Run COPY in binary on an exported snapshot; `take` gets it message by message. Raises psycopg's errors.

    `lock_wait`: as Postgres's lock_timeout.
    """
    connection = await AsyncConnection.connect(conninfo, autocommit=False)
    try:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'".encode())
        await connection.execute(f"SET lock_timeout = '{lock_wait}'".encode())
        statement = f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()
        async with connection.cursor() as cursor, cursor.copy(statement) as copy:
            async for data in copy:
                await take(bytes(data))
    finally:
        # not close, which would read a COPY that is stopped in the middle to its end
        connection.pgconn.finish()

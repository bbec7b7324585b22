"""Server-sent events: patches as they come, and beats from outside of the watch, so that a dead watch and a dead
connection differ."""

import asyncio
from collections.abc import AsyncIterator

from cdc.serve.publisher import Publisher, encode_event, format_now

BEAT_SECONDS = 5.0
RETRY_MS = 2000
MOST_STREAMS = 32


async def stream_events(publisher: Publisher, seen: str, beat_seconds: float = BEAT_SECONDS) -> AsyncIterator[bytes]:
    """All that comes after `seen`, for as long as somebody listens; each piece says what time it is."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    end = publisher.subscribe(lambda: loop.call_soon_threadsafe(woken.set))
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        while True:
            woken.clear()
            seen, events = publisher.events_after(seen)
            yield encode_event("beat", {"now": format_now(publisher.now())}) + events
            try:
                await asyncio.wait_for(woken.wait(), beat_seconds)
            except TimeoutError:
                continue
    finally:
        end()

"""Work whose client may hang up: it is waited for only while somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from steelyard.web.errors import ClientGone

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.types import Receive

    from steelyard.web.admission import Permit

T = TypeVar("T")
# Called once the work is queued; its awaitable ends when nobody waits for the answer any more.
Watch = Callable[[], Awaitable[object]]


async def until_gone(receive: Receive) -> None:
    """Return when the client hangs up; call it once the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def result_while_wanted(future: Future[T], *, permit: Permit, gone: Watch) -> T:
    """Return the result of a thread's *future*, or raise its error, or ClientGone once *gone*() ends.

    A departed client's work is dropped if it waits for its turn. If it runs, *permit* is kept until it ends.
    """
    try:
        return await while_wanted(asyncio.wrap_future(future), gone=gone)
    finally:
        _settle(future, permit)


async def while_wanted(result: asyncio.Future[T], *, gone: Watch) -> T:
    """Return *result* once it is there, or raise its error, or ClientGone once *gone*() ends; it is cancelled then."""
    watcher = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((result, watcher), return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return result.result()
        raise ClientGone
    finally:
        watcher.cancel()
        result.cancel()


def _settle(future: Future[T], permit: Permit) -> None:
    """Drop *future* if it waits. If it runs, the place is held until it ends: a thread's work cannot be stopped."""
    if future.cancel() or future.done():
        return
    permit.keep()
    loop = asyncio.get_running_loop()
    future.add_done_callback(lambda _future: loop.call_soon_threadsafe(permit.release))

"""Work whose client hangs up."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from steelyard.web.admission import Admission
from steelyard.web.departed import result_while_wanted, until_gone
from steelyard.web.errors import ClientGone


async def for_ever() -> None:
    await asyncio.Event().wait()


async def at_once() -> None:
    """Hang up."""


def test_a_result_is_given_to_whom_waits_and_frees_the_place():
    admission, future = Admission(1), Future[int]()
    future.set_result(7)

    async def wait() -> int:
        with admission.enter() as permit:
            return await result_while_wanted(future, permit=permit, gone=for_ever)

    assert asyncio.run(wait()) == 7
    assert admission.in_progress == 0


def test_work_that_waits_is_dropped_when_its_client_is_gone():
    admission, future = Admission(1), Future[int]()

    async def wait() -> None:
        with admission.enter() as permit:
            await result_while_wanted(future, permit=permit, gone=at_once)

    with pytest.raises(ClientGone):
        asyncio.run(wait())
    assert future.cancelled()
    assert admission.in_progress == 0


def test_work_that_runs_keeps_its_place_until_it_ends():
    admission, future = Admission(1), Future[int]()
    future.set_running_or_notify_cancel()

    async def wait() -> None:
        with pytest.raises(ClientGone), admission.enter() as permit:
            await result_while_wanted(future, permit=permit, gone=at_once)
        assert admission.in_progress == 1
        future.set_result(7)
        await asyncio.sleep(0)
        assert admission.in_progress == 0

    asyncio.run(wait())


def test_a_client_is_gone_when_it_hangs_up_and_not_before():
    events = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def receive():
        return next(events)

    asyncio.run(until_gone(receive))
    assert list(events) == []

"""What works beside a server: neither of them ends unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from ullage.errors import Retryable
from ullage.serving.server import url_of, work_beside


@contextlib.asynccontextmanager
async def serving_on() -> AsyncIterator[asyncio.Task[None]]:
    task: asyncio.Task[None] = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
    try:
        yield task
    finally:
        task.cancel()


class Job:
    """Works until it is cancelled, or until it is told how to end."""

    def __init__(self) -> None:
        self.ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def run(self) -> None:
        try:
            await self.ends
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_at_the_stop_the_jobs_are_called_off() -> None:
    job, stop = Job(), asyncio.Event()
    async with serving_on() as server:
        asyncio.get_running_loop().call_soon(stop.set)
        await asyncio.wait_for(work_beside(server, [job.run()], stop=stop), 10)
    assert job.cancelled


async def test_a_job_that_fails_is_no_secret_and_takes_the_others_along() -> None:
    failing, other = Job(), Job()
    async with serving_on() as server:
        failing.ends.set_exception(ValueError("no room"))
        with pytest.raises(ValueError, match="no room"):
            await asyncio.wait_for(work_beside(server, [failing.run(), other.run()], stop=asyncio.Event()), 10)
    assert other.cancelled


async def test_a_job_that_ends_is_an_error() -> None:
    job = Job()
    job.ends.set_result(None)
    async with serving_on() as server:
        with pytest.raises(Retryable, match="what looks after the HTTPS server ended by itself"):
            await asyncio.wait_for(work_beside(server, [job.run()], stop=asyncio.Event()), 10)


async def test_a_server_that_ends_is_an_error() -> None:
    job = Job()
    async with serving_on() as server:
        server.cancel()
        with pytest.raises(Retryable, match="the HTTPS server ended by itself"):
            await asyncio.wait_for(work_beside(server, [job.run()], stop=asyncio.Event()), 10)
    assert job.cancelled


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("localhost", "https://localhost:443", id="a name"),
        pytest.param("::1", "https://[::1]:443", id="an address of IPv6 stands in brackets"),
    ],
)
def test_urls(host: str, url: str) -> None:
    assert url_of(host, 443) == url

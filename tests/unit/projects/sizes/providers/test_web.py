"""Calls to providers end: in bytes, and in seconds."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import web

from tests.unit.projects.sizes.providers.clouds import Cloud, serving
from ullage.projects.sizes.providers.contract import NotAnswered
from ullage.projects.sizes.providers.web import Limits
from ullage.projects.sizes.providers.web import web as calls_of


async def large(cloud: Cloud, request: web.Request) -> web.Response:
    return web.Response(body=b'"' + b"x" * 5_000 + b'"')


async def packed(cloud: Cloud, request: web.Request) -> web.Response:
    """Small on the wire, and not in memory."""
    return web.Response(body=gzip.compress(b'"' + b"x" * 5_000_000 + b'"'), headers={"Content-Encoding": "gzip"})


async def silent(cloud: Cloud, request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("handle", [pytest.param(large, id="as it is"), pytest.param(packed, id="packed")])
async def test_an_answer_that_is_too_large_is_given_up(handle: object) -> None:
    async with serving(Cloud([]), handle) as cloud, calls_of(Limits(most_bytes=4_000)) as calls:  # type: ignore[arg-type]
        with pytest.raises(NotAnswered, match=r"^127\.0\.0\.1 answered with more than 4000 bytes$"):
            await calls.get(cloud.address)


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    async with serving(Cloud([]), silent) as cloud, calls_of(Limits(seconds=0.05)) as calls:
        with pytest.raises(NotAnswered, match=r"^127\.0\.0\.1 did not answer within 0\.05 s$"):
            await calls.get(cloud.address)


async def test_an_address_that_is_none_is_told() -> None:
    async with calls_of() as calls:
        with pytest.raises(NotAnswered, match="an address that it is asked at is none"):
            await calls.get("http://[not-an-address/")

"""The ASGI application: from bytes on a connection to a handler's answer, and back.

    who is it → on whose behalf → may they → read the body → which handler → answer

Every failure below becomes a Status body here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

from ullage.standalone.apiserver.admission.webhooks.dispatch import warning_headers
from ullage.standalone.apiserver.codec.json import BadNumber, BodyTooLarge
from ullage.standalone.apiserver.http.intake import Disconnected, Intake, Receive
from ullage.standalone.apiserver.http.tunnel import Tunnels
from ullage.standalone.apiserver.limits.pieces import PIECE, pieces
from ullage.standalone.apiserver.request.answers import Answer, Stream, Tunnel, error_answer
from ullage.standalone.apiserver.request.deadlines import Allowance, allowance, ending
from ullage.standalone.apiserver.request.request import Request, decoded_path, parse_query, parse_target, verb_of
from ullage.standalone.apiserver.status import ApiError, bad_request, internal_error, too_large

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handle = Callable[[Request, bytes | None], Awaitable[Answer | Stream | Tunnel]]

TICK = 0.001  # seconds: the event loop's clock tells nothing less


class App:
    def __init__(self, handle: Handle, *, request_timeout: float) -> None:
        self._handle = handle
        self._request_timeout = request_timeout
        self._intake = Intake()
        self._tunnels = Tunnels()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        warnings: list[str] = []
        try:
            async with AsyncExitStack() as held:  # the body counts until the answer is there
                answer = await self._answer(scope, receive, warnings, held)
        except Disconnected:
            return
        if isinstance(answer, Tunnel):
            try:
                await self._tunnels.open(answer, scope["near_end"])
                return
            except ApiError as error:
                answer = error_answer(error)
        if isinstance(answer, Stream):
            await _stream(answer, warnings, receive, send)
            return
        await _send(answer, warnings, send, head=scope["method"] == "HEAD")

    async def _answer(
        self, scope: Scope, receive: Receive, warnings: list[str], held: AsyncExitStack
    ) -> Answer | Stream | Tunnel:
        began = asyncio.get_running_loop().time()
        request: Request | None = None
        try:
            request = _request(scope)
            request.warnings = warnings
            request.known = scope.get("known", request.known)
            headers = request.headers
            request.receive = lambda owner: held.enter_async_context(self._intake.read(headers, receive, owner))
            given = allowance(request, self._request_timeout)
            return await self._in_time(request, scope.get("peer_certificate"), given=given, until=began + given.seconds)
        except ApiError as error:
            return error_answer(error)
        except BadNumber as error:
            return error_answer(bad_request(str(error)))
        except BodyTooLarge as error:
            return error_answer(too_large(f"Request entity too large: {error}"))
        except Disconnected:
            raise
        except Exception as error:
            logger.exception("request failed", extra={"path": request.path if request else scope.get("path")})
            return error_answer(internal_error(f"{type(error).__name__}"))

    async def _in_time(
        self, request: Request, peer_certificate: bytes | None, *, given: Allowance, until: float
    ) -> Answer | Stream | Tunnel:
        if given.seconds == math.inf:
            return await self._handle(request, peer_certificate)
        if given.seconds < TICK or asyncio.get_running_loop().time() >= until:  # a handler that never waits would not notice
            return given.spent()
        try:
            with ending(until):
                async with asyncio.timeout_at(until):
                    return await self._handle(request, peer_certificate)
        except TimeoutError:
            return given.spent()


def _request(scope: Scope) -> Request:
    header_list = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    query = parse_query(scope["query_string"])
    path = decoded_path(scope.get("raw_path") or scope["path"].encode())
    target = parse_target(path)
    method = scope["method"]
    return Request(method, path, query, dict(header_list), header_list, b"", target, verb_of(method, target, query))


async def _send(answer: Answer, warnings: list[str], send: Send, *, head: bool) -> None:
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    if answer.content_type:
        headers.append((b"content-type", answer.content_type.encode()))
    headers.append((b"content-length", str(len(answer.body)).encode()))
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-cache, private"))
    headers += [(name.encode(), value.encode()) for name, value in warning_headers(warnings)]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    if len(answer.body) <= PIECE or head:
        await send({"type": "http.response.body", "body": b"" if head else answer.body})
        return
    for piece in pieces((answer.body,)):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _stream(stream: Stream, warnings: list[str], receive: Receive, send: Send) -> None:
    """Sends chunks until they end or the client goes. The first byte leaves at once: clients wait for the headers."""
    headers = [(b"content-type", stream.content_type.encode()), (b"cache-control", b"no-cache, private")]
    headers += [(name.encode(), value.encode()) for name, value in warning_headers(warnings)]
    await send({"type": "http.response.start", "status": stream.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    pump = asyncio.ensure_future(_pump(stream, send))
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        pump.cancel()
        await asyncio.gather(pump, gone, return_exceptions=True)
    if pump.done() and not pump.cancelled() and pump.exception() is not None:
        logger.error("watch failed", exc_info=pump.exception())


async def _pump(stream: Stream, send: Send) -> None:
    async with aclosing(stream.chunks) as chunks:  # what a client that has gone was shown is let go now, not at some collection
        async for chunk in chunks:
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

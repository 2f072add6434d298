"""HTTP to one API server: one session, kept connections, patience where the server asks for it, errors translated.

Nothing here knows what an object is. What may be repeated, and when: anything after 429, and after 503 with Retry-After
(the server says that it did nothing); reads also after other 5xx. A write that was sent and got no answer is never sent
again from here, since it may have been done.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
from aiohttp import ClientTimeout
from multidict import CIMultiDict
from yarl import URL

from ullage.clock import Clock, SystemClock
from ullage.kube.client.config import Config
from ullage.kube.client.connection import Body, Sockets, proxy_arguments
from ullage.kube.client.credentials import Access, Credentials, Headers
from ullage.kube.client.proxy import is_loopback
from ullage.kube.client.stream import Gunzip, Intake, Lines
from ullage.kube.client.websockets.upgrade import CONNECT_SECONDS, Upgrades
from ullage.kube.errors import ApiError, TooLarge, TooManyRequests, Unauthorized, Unavailable, from_answer

logger = logging.getLogger(__name__)

JSON_TYPE = "application/json"
ACCEPT_JSON = "application/json, */*"  # as kubectl: KubeVirt answers 406 to `application/json` alone
WATCH_GRACE_SECONDS = 30.0  # how long after its agreed end a watch that is still open counts as dead
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
READ_BUFFER = 2**18

Guard = Callable[[], None]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as often as it must be sent."""

    method: str
    path: str  # already quoted
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = JSON_TYPE
    guard: Guard | None = None
    accept: str = ACCEPT_JSON

    @property
    def what(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def reads(self) -> bool:
        return self.method in {"GET", "HEAD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How long a call may take, and how much of asking again it includes."""

    timeout: float = 70.0  # one try; a little more than the server's own limit, so that its answer arrives
    waiting: float = 30.0  # all pauses of one call together; after that the error is the caller's


class Transport:
    """The way to one API server. Open it with `async with`, inside the event loop that uses it."""

    def __init__(
        self,
        config: Config,
        *,
        user_agent: str,
        retries: Retries | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self._retries = retries or Retries()
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._jitter = jitter
        self._credentials = Credentials(config, clock=self._clock)
        self.intake = Intake(config.limits, clock=self._clock, sleep=sleep) if config.limits is not None else None
        packs = config.compress and self.intake is None  # what is small on the way may be of any size once it is unpacked
        compress = packs and not is_loopback(urlsplit(config.server).hostname or "")
        self._headers: Headers = (
            ("User-Agent", user_agent),
            ("Accept-Encoding", "gzip" if compress else "identity"),  # on one machine, packing costs more than it saves
        )
        self._arguments = proxy_arguments(config)
        if not config.server.startswith("https:"):  # there is no tunnel then: the proxy reads the request itself
            self._headers += tuple(self._arguments.pop("proxy_headers", {}).items())
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()
        self._warnings: set[str] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=self._sockets.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await self._sockets.end()

    async def call(self, call: Call) -> bytes:
        """The body of a successful answer; anything else is raised."""
        return await self._patiently(call, lambda access: self._answer(call, access))

    async def lines(
        self, call: Call, *, seconds: float, heard: Callable[[], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch that the server was asked to end after so many seconds; it ends quietly when it does. `heard`
        is called whenever bytes have come, be it a part of a line."""
        timeout = ClientTimeout(total=seconds + WATCH_GRACE_SECONDS, sock_connect=CONNECT_SECONDS)
        response = await self._patiently(call, lambda access: self._opened(call, access, timeout))
        lines, intake = Lines(), self.intake
        try:
            gunzip = Gunzip() if _packed(call, response, intake) else None
            while True:
                try:
                    data = await response.content.readany()
                    found = lines.feed(gunzip.feed(data) if gunzip else data)
                except (aiohttp.ClientError, OSError, zlib.error) as error:
                    raise _no_answer(call, error) from _shown(error)
                if not data:
                    break
                if heard is not None:
                    heard()
                if intake is not None:
                    intake.check_begun(call.what, lines.begun)
                for line in found:
                    if intake is not None:
                        await intake.line(call.what, line)
                    yield line
            if lines.unfinished:
                raise Unavailable(f"{call.what}: the watch was cut in the middle of an event", reason="Cut")
        finally:
            response.close()  # not released: a watch that was left early still has bytes to come

    def upgrades(self) -> Upgrades:
        """Connections that become WebSockets, with the same credentials and on the same sockets."""
        if self._session is None:
            raise RuntimeError("the client is not open: use it inside `async with`")
        return Upgrades(self._session, headers=self._headers, arguments=self._arguments, with_access=self._with_access)

    def url(self, call: Call) -> URL:
        query = f"?{urlencode(call.query)}" if call.query else ""
        return URL(f"{self.config.server}{call.path}{query}", encoded=True)

    async def _patiently(self, call: Call, send: Callable[[Access], Awaitable[R]]) -> R:
        """Sends until there is an answer worth keeping, or until waiting has taken too long."""
        end = self._clock.monotonic() + self._retries.waiting
        attempt = 0
        while True:
            try:
                return await self._with_access(send)
            except (TooManyRequests, Unavailable) as error:
                pause = pause_after(error, reads=call.reads, attempt=attempt)
                if pause is None or self._clock.monotonic() + pause > end:
                    raise
            await self._sleep(pause * (1 + 0.25 * self._jitter()))  # those who were refused together come back apart
            attempt += 1

    async def _with_access(self, send: Callable[[Access], Awaitable[R]]) -> R:
        access = await self._credentials.access()
        try:
            return await send(access)
        except Unauthorized:
            renewed = await self._credentials.renewed(access)
            if renewed is None:
                raise
        return await send(renewed)

    async def _answer(self, call: Call, access: Access) -> bytes:
        timeout = ClientTimeout(total=self._retries.timeout, sock_connect=CONNECT_SECONDS)
        response = await self._send(call, access, timeout)
        async with response:
            body = await _read(call, response, self.intake)
        if self.intake is None:
            self._warn(response)
        if 200 <= response.status < 300:
            return body
        raise from_answer(response.status, body, what=call.what, retry_after=response.headers.get("Retry-After"))

    async def _opened(self, call: Call, access: Access, timeout: ClientTimeout) -> aiohttp.ClientResponse:
        response = await self._send(call, access, timeout)
        if response.status == 200:
            return response
        async with response:
            body = await _read(call, response, self.intake)
        raise from_answer(response.status, body, what=call.what, retry_after=response.headers.get("Retry-After"))

    async def _send(self, call: Call, access: Access, timeout: ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it inside `async with`")
        headers = CIMultiDict((("Accept", call.accept), *self._headers, *access.headers))
        body = None if call.reads else Body(call.body or b"", content_type=call.content_type, guard=call.guard)
        try:
            return await self._session.request(
                call.method,
                self.url(call),
                headers=headers,
                data=body,
                timeout=timeout,
                ssl=True if access.ssl is None else access.ssl,
                allow_redirects=False,  # a redirect could carry our token anywhere
                **self._arguments,
            )
        except (aiohttp.ClientError, OSError) as error:
            if body is not None and body.refusal is not None:
                raise body.refusal from None
            raise _no_answer(call, error, sent=body is None or body.sent) from _shown(error)

    def _warn(self, response: aiohttp.ClientResponse) -> None:
        """The server's remarks (deprecated versions, odd fields) go to the log, each once."""
        for text in response.headers.getall("Warning", ()):
            if text not in self._warnings and len(self._warnings) < 1000:
                self._warnings.add(text)
                logger.warning("the API server warns: %s", text.removeprefix("299 - ").strip('"'))


def pause_after(error: ApiError, *, reads: bool, attempt: int) -> float | None:
    """How long to wait before the same call is sent again; None if it must not be."""
    backoff = min(FIRST_PAUSE * 2.0 ** min(attempt, 10), LONGEST_PAUSE)
    if isinstance(error, TooManyRequests):
        return backoff if error.retry_after is None else error.retry_after
    if isinstance(error, Unavailable) and error.code == 0 and not error.sent:
        return 0.0 if error.reason == "Closed" and attempt == 0 else None  # the server closed a kept connection
    if error.code == 503 and error.retry_after is not None:
        return error.retry_after
    if reads and error.code >= 500:
        return backoff if error.retry_after is None else error.retry_after
    return None


def _packed(call: Call, response: aiohttp.ClientResponse, intake: Intake | None) -> bool:
    """A server that is not believed was asked not to pack what it sends."""
    packed = response.headers.get("Content-Encoding") == "gzip"
    if packed and intake is not None:
        raise TooLarge(f"{call.what}: the answer is packed, and was not to be", reason="Packed")
    return packed


async def _read(call: Call, response: aiohttp.ClientResponse, intake: Intake | None) -> bytes:
    packed = _packed(call, response, intake)
    try:
        if intake is not None:
            return await intake.body(call.what, response.content, success=response.status < 300)
        body = await response.read()
        return gzip.decompress(body) if packed else body
    except (aiohttp.ClientError, OSError, EOFError, zlib.error) as error:
        raise _no_answer(call, error) from _shown(error)


def _shown(error: BaseException) -> BaseException | None:
    """What may be seen in a traceback. These hold the request, and show its headers."""
    return None if isinstance(error, aiohttp.ClientResponseError) else error


def _no_answer(call: Call, error: BaseException, *, sent: bool = True) -> Unavailable:
    """What is known about a request that got no answer. Library texts are not repeated: some show a proxy's password."""
    reason = "NoAnswer"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = f"the server's certificate is not trusted: {error.certificate_error}"
        reason, sent = "Untrusted", False
    elif isinstance(error, aiohttp.ClientHttpProxyError):
        why, sent = f"the proxy answered {error.status}", False
    elif isinstance(error, aiohttp.ClientConnectorError):
        why = f"no connection to {error.host}:{error.port}: {error.os_error.strerror or type(error.os_error).__name__}"
        sent = False
    elif isinstance(error, aiohttp.ConnectionTimeoutError):
        why, sent = f"no connection within {CONNECT_SECONDS:.0f} s", False
    elif isinstance(error, TimeoutError):
        why, reason = "no answer in time", "Timeout"
    elif isinstance(error, aiohttp.ClientConnectionResetError) and not sent:
        why, reason = "the connection was closed before the request was sent", "Closed"
    else:
        why = f"the connection broke ({type(error).__name__})"
    return Unavailable(f"{call.what}: {why}", reason=reason, sent=sent)

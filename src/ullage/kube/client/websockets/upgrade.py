"""Connections to the API server that become WebSockets. The answer to one that does not is read as any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import aiohttp
from aiohttp import ClientTimeout
from multidict import CIMultiDict
from yarl import URL

from ullage.kube.client.credentials import Access, Headers
from ullage.kube.errors import Unavailable, from_answer

CONNECT_SECONDS: Final = 10.0
FAREWELL_SECONDS: Final = 0.5  # for the other side's, when we close: whoever hangs has none
SWITCHING: Final = 101
MOST_REFUSAL: Final = 64 * 1024  # bytes of the answer that says why not

Socket = aiohttp.ClientWebSocketResponse


class WithAccess(Protocol):
    """Calls with credentials, and once more with others where these are refused."""

    async def __call__(self, send: Callable[[Access], Awaitable[Socket]], /) -> Socket: ...


class Upgrades:
    def __init__(
        self, session: aiohttp.ClientSession, *, headers: Headers, arguments: Mapping[str, Any], with_access: WithAccess
    ) -> None:
        self._session = session
        self._headers = headers
        self._arguments = arguments
        self._with_access = with_access

    async def open(
        self, url: URL, *, protocols: Sequence[str], most_message: int, guard: Callable[[], None] | None = None
    ) -> Socket:
        """It is asked for once, and never again where no answer came. Whoever gets it closes it. The guard is asked right
        before."""
        what = f"GET {url.path}"

        async def refuse(response: aiohttp.ClientResponse) -> None:
            if response.status != SWITCHING:
                async with response:
                    body = await response.content.read(MOST_REFUSAL)
                raise from_answer(response.status, body, what=what, retry_after=response.headers.get("Retry-After"))

        async def send(access: Access) -> Socket:
            if guard is not None:
                guard()
            # A session of its own: the library lets nobody read the answer to a refused upgrade but this function.
            session = aiohttp.ClientSession(
                connector=self._session.connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                raise_for_status=refuse,
                timeout=ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            )
            try:
                opened: Socket = await session.ws_connect(
                    url,
                    protocols=protocols,
                    headers=CIMultiDict((*self._headers, *access.headers)),
                    ssl=True if access.ssl is None else access.ssl,
                    max_msg_size=most_message,
                    timeout=aiohttp.ClientWSTimeout(ws_close=FAREWELL_SECONDS),
                    **self._arguments,
                )
                return opened
            except (aiohttp.ClientError, OSError) as error:
                raise _no_answer(what, error) from None
            finally:
                session.detach()

        return await self._with_access(send)


def _no_answer(what: str, error: BaseException) -> Unavailable:
    """Library texts are not repeated: some show headers, or a proxy's password."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientHttpProxyError):
        return Unavailable(f"{what}: no connection ({type(error).__name__})", reason="NoAnswer", sent=False)
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return Unavailable(f"{what}: the server does not answer as a WebSocket does", reason="NoAnswer")
    return Unavailable(f"{what}: the connection broke ({type(error).__name__})", reason="NoAnswer")

"""Calls over HTTPS to the interfaces of providers: bounded in bytes and seconds, to no other host than the one that is named.

A redirect is an error: whoever follows one hands the credential to whomever it points at. Errors have the host and the status;
neither the query, which some providers sign, nor anything of the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from ullage.projects.sizes.providers.contract import NotAnswered

MOST_BYTES: Final = 32 << 20
SECONDS: Final = 20.0
_REFUSED: Final = (401, 403)


@dataclass(frozen=True, slots=True)
class WebAnswer:
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one call."""

    most_bytes: int = MOST_BYTES
    seconds: float = SECONDS


class Web:
    """A session of calls. Proxies are those of the environment."""

    def __init__(self, session: aiohttp.ClientSession, limits: Limits) -> None:
        self._session = session
        self._limits = limits

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None) -> Any:
        """The JSON that is answered."""
        address = _parsed(url).update_query(dict(query or {}))
        return (await self._call("GET", address, headers=dict(headers or {}))).body

    async def get_exactly(self, url: str) -> Any:
        """The same for an address whose query is signed as it is written."""
        return (await self._call("GET", URL(url, encoded=True))).body

    async def post(self, url: str, *, form: Mapping[str, str] | None = None, body: object = None) -> WebAnswer:
        if form is not None:
            return await self._call("POST", _parsed(url), data=dict(form))
        return await self._call("POST", _parsed(url), json=body)

    async def _call(self, method: str, url: URL, **more: Any) -> WebAnswer:
        host = url.host or str(url)
        try:
            async with self._session.request(method, url, allow_redirects=False, **more) as answer:
                if answer.status not in (200, 201):
                    raise NotAnswered(_status_text(host, answer.status))
                body = await self._read(host, answer)
                return WebAnswer(answer.headers, msgspec.json.decode(body))
        except TimeoutError as error:
            raise NotAnswered(f"{host} did not answer within {self._limits.seconds:g} s") from error
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise NotAnswered(f"{host} answered with something that is no JSON") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Not the error's own text: it may have the whole address in it.
            raise NotAnswered(f"{host} cannot be reached ({type(error).__name__})") from error

    async def _read(self, host: str, answer: aiohttp.ClientResponse) -> bytes:
        read = bytearray()
        async for part in answer.content.iter_any():
            read += part
            if len(read) > self._limits.most_bytes:
                raise NotAnswered(f"{host} answered with more than {self._limits.most_bytes} bytes")
        return bytes(read)


@asynccontextmanager
async def web(limits: Limits | None = None) -> AsyncIterator[Web]:
    chosen = limits or Limits()
    timeout = aiohttp.ClientTimeout(total=chosen.seconds)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar, trust_env=True) as session:
        yield Web(session, chosen)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port. One that is no address has none."""
    try:
        return URL(one).origin() == URL(other).origin()
    except ValueError:
        return False


def _parsed(url: str) -> URL:
    try:
        return URL(url)
    except ValueError as error:
        raise NotAnswered("an address that it is asked at is none") from error


def _status_text(host: str, status: int) -> str:
    if status in _REFUSED:
        return f"{host} answered {status}: it does not accept the credential, or that does not allow to list flavours"
    if 300 <= status < 400:
        return f"{host} answered {status}: redirects are not followed"
    return f"{host} answered {status}"

"""The call to a webhook: HTTPS only, connections kept and reused, one client for each CA bundle.

Failures are worded as kube-apiserver words them: people search for these sentences. But a part of a path that only an API
server is to know, as a long hexadecimal number is, is not told to those who read the failure.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import math
import re
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from ullage.standalone.apiserver.admission.match import Hook
from ullage.standalone.apiserver.admission.review import CallFailure
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.deadlines import remaining
from ullage.standalone.apiserver.status import json_string

ResolveService = Callable[[str, str, int], tuple[str, int] | None]

LARGEST_ANSWER: Final = 32 * 1024 * 1024
MOST_TRIES: Final = 10
HEADERS: Final = {
    "User-Agent": "kube-apiserver-admission",
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
}
# What a client says of a status code where the body says nothing usable.
MEANINGS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_SECRET: Final = re.compile(r"(?<=/)[0-9a-f]{32,}(?=[/?]|$)")
TALKATIVE: Final = (403, 406, 415)  # here the body is the message


def no_services(namespace: str, name: str, port: int) -> tuple[str, int] | None:
    """Without a cluster network there is no service to be found."""
    return None


class Caller:
    """Asks webhooks. Make it inside a running event loop; `close` it there."""

    def __init__(self, resolve_service: ResolveService = no_services) -> None:
        self._resolve = resolve_service
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Ends every connection. Nothing is in flight any more, so there is nobody to say goodbye to."""
        for session in self._sessions.values():
            if session.connector is not None:
                await session.connector.close(abort_ssl=True)
            await session.close()
        self._sessions.clear()
        await asyncio.sleep(0)  # sockets of calls that timed out close in the loop's next round

    async def post(self, hook: Hook, body: bytes) -> bytes:
        """The answer's body. Raises CallFailure for everything that is not a whole answer with a 2xx code."""
        shown, target, server_name = self._address(hook)
        try:
            async with asyncio.timeout(hook.timeout):
                return await self._attempt(hook, target, server_name, body)
        except CallFailure:
            raise
        except TimeoutError:
            raise _failed(f'Post "{_told(shown)}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise _failed(f'Post "{_told(shown)}": {_network(error, target)}') from error

    async def _attempt(self, hook: Hook, target: URL, server_name: str | None, body: bytes) -> bytes:
        """One call, and more of them while the webhook asks to come back later: the timeout bounds them all."""
        session = self._session(hook.client.get("caBundle") or "")
        headers = HEADERS | {"Host": f"{server_name}:{target.port}"} if server_name else HEADERS
        for tries in range(1, MOST_TRIES + 1):
            async with session.post(target, data=body, headers=headers, server_hostname=server_name) as answer:
                found = await _read(answer)
                wait = answer.headers.get("Retry-After", "")
                again = (
                    (answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= 500)
                    and wait.isascii()
                    and wait.isdigit()
                )
                if not again or tries == MOST_TRIES:
                    _check(answer, found)
                    return found
            await asyncio.sleep(int(wait))
        raise AssertionError("unreachable")

    def _address(self, hook: Hook) -> tuple[URL, URL, str | None]:
        """The address as messages show it, the one to connect to, and the name that the certificate must carry."""
        service = hook.client.get("service")
        if service is None:
            url = URL(hook.client.get("url") or "")
            if url.scheme != "https":
                raise _failed(f"'url' must be a HTTPS url, got {json_string(str(url))}")
            shown = url.update_query(timeout=_timeout(hook))
            return shown, shown, None
        namespace, name, port = service["namespace"], service["name"], service.get("port") or 443
        host = f"{name}.{namespace}.svc"
        path = "/" + (service.get("path") or "").lstrip("/")
        shown = URL(f"https://{host}:{port}{path}?timeout={_timeout(hook)}")
        found = self._resolve(namespace, name, port)
        if found is None:
            raise _failed(f'Post "https://{host}:{port}{_told(shown.relative())}": service {json_string(name)} not found')
        return shown, shown.with_host(found[0]).with_port(found[1]), host

    def _session(self, bundle: str) -> aiohttp.ClientSession:
        session = self._sessions.get(bundle)
        if session is None:
            connector = aiohttp.TCPConnector(ssl=_trust(bundle), limit=0, keepalive_timeout=90)
            session = self._sessions[bundle] = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return session


def _timeout(hook: Hook) -> str:
    """How long the webhook is told that it has: its own timeout, or what is left of the request. The request ends by itself,
    as a whole: a webhook that may fail must not let it go on for a moment longer."""
    return f"{max(1, math.ceil(min(hook.timeout, remaining())))}s"


def _told(address: URL) -> str:
    return _SECRET.sub("…", str(address))


def _trust(bundle: str) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii"))
    except (ssl.SSLError, binascii.Error, ValueError):
        raise _failed("unable to load root certificates: unable to parse bytes as PEM block") from None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body, unless it would fill our memory."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise _failed(f"the webhook's answer is larger than {LARGEST_ANSWER} bytes")
    return bytes(body)


def _check(answer: aiohttp.ClientResponse, body: bytes) -> None:
    if not 200 <= answer.status < 300:
        raise _failed(_meaning(answer.status, body))
    if not body:
        kind = answer.headers.get("Content-Type", "application/json")
        raise _failed(f"0-length response with status code: {answer.status} and content type: {kind}")


def _meaning(code: int, body: bytes) -> str:
    """The message of a Status in the body, or what the code alone says."""
    if said := _status_message(body):
        return said
    text = body.decode("utf-8", "replace")
    if code in TALKATIVE:
        return text.strip()
    if code in MEANINGS:
        return MEANINGS[code]
    if code >= 500:
        return f"an error on the server ({json_string(text.strip())}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _status_message(body: bytes) -> str:
    try:
        found: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return str(found.get("message", "")) if isinstance(found, dict) and found.get("kind") == "Status" else ""


def _network(error: Exception, target: URL) -> str:
    place = f"{target.host}:{target.port}"
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate(cause, target)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {target.host}: no such host"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "EOF"
    if isinstance(cause, ConnectionRefusedError) or getattr(cause, "errno", None) == errno.ECONNREFUSED:
        return f"dial tcp {place}: connect: connection refused"
    if isinstance(cause, ConnectionResetError):
        return f"read tcp {place}: read: connection reset by peer"
    return str(cause) or type(cause).__name__


def _certificate(error: ssl.SSLCertVerificationError, target: URL) -> str:
    match error.verify_code:
        case 10 | 9:
            return "certificate has expired or is not yet valid"
        case 62 | 64:
            return f"certificate is not valid for {target.host}"
        case _:
            return "certificate signed by unknown authority"


def _failed(text: str) -> CallFailure:
    return CallFailure(f"failed to call webhook: {text}")

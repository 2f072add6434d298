"""Requests whose harm is not in a body: paths, queries, headers, methods, and bytes that are hardly HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from .handlers import APPS, CORE, CUSTOM
from .scene import THEIRS

TABLE: Final = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
MAPS: Final = f"{CORE}/configmaps"


@dataclass(frozen=True, slots=True)
class Query:
    """`path` is made late: some are a megabyte long."""

    id: str
    path: Callable[[], str]
    method: str = "GET"
    headers: Callable[[], tuple[str, ...]] = tuple

    def __str__(self) -> str:
        return self.id


def _selected(selector: str, *, by: str = "labelSelector", more: str = "") -> str:
    return f"{MAPS}?{by}={quote(selector, safe=',=!()')}{more}"


def _absent(count: int) -> str:
    return ",".join(f"!k{number}" for number in range(count))


def _token(start: str, rv: object = 1) -> str:
    body = {"v": "meta.k8s.io/v1", "rv": rv, "start": start}
    return base64.urlsafe_b64encode(json.dumps(body).encode()).rstrip(b"=").decode()


def _jwt(header: bytes, claims: bytes) -> str:
    parts = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, claims, b"x" * 256))
    return "Authorization: Bearer " + ".".join(parts)


SELECTORS: Final = (
    Query("a hundred thousand labels that are to be absent", lambda: _selected(_absent(100_000))),
    Query("the same for a watch", lambda: _selected(_absent(100_000), more="&watch=1&timeoutSeconds=1")),
    Query("the same for a deletion of many", lambda: _selected(_absent(100_000) + ",made"), "DELETE"),
    Query("a hundred thousand values", lambda: _selected(f"a notin ({','.join(f'v{n}' for n in range(100_000))})")),
    Query("one value very often", lambda: _selected(f"a in ({'v,' * 300_000}v)")),
    Query("parentheses", lambda: _selected("(" * 900_000)),
    Query("commas", lambda: _selected("," * 900_000)),
    Query("exclamation marks", lambda: _selected("!" * 900_000)),
    Query("blanks", lambda: _selected(" " * 300_000 + "a")),
    Query("a label's name that fills it", lambda: _selected("a" * 900_000)),
    Query("a prefix that a pattern tries in every way", lambda: _selected("a-" * 400_000 + "/b")),
    Query("a value that a pattern tries in every way", lambda: _selected("a=" + "b-" * 400_000)),
    Query("a number that fills it", lambda: _selected("a>" + "9" * 900_000)),
    Query("fifty thousand fields", lambda: _selected("metadata.name!=x," * 50_000 + "metadata.name!=y", by="fieldSelector")),
    Query("backslashes in a field", lambda: _selected("metadata.name=" + "\\\\" * 150_000, by="fieldSelector")),
    Query("a field that fills it", lambda: _selected("a." * 450_000 + "=b", by="fieldSelector")),
    Query("equals signs in a field", lambda: _selected("=" * 900_000, by="fieldSelector")),
)

LISTS: Final = (
    Query("a limit that is no int64", lambda: f"{MAPS}?limit={'9' * 100_000}"),
    Query("a version of a hundred thousand digits", lambda: f"{MAPS}?resourceVersion={'9' * 100_000}"),
    Query("a watch from a version of a hundred thousand digits", lambda: f"{MAPS}?watch=1&resourceVersion={'9' * 100_000}"),
    Query("a watch from a version of the future", lambda: f"{MAPS}?watch=1&resourceVersion={2**63}&timeoutSeconds=1"),
    Query("seconds that are no int64", lambda: f"{MAPS}?watch=1&timeoutSeconds={'9' * 100_000}"),
    Query("fewer than no seconds", lambda: f"{MAPS}?watch=1&timeoutSeconds=-1"),
    Query("a timeout of a nanosecond", lambda: f"{MAPS}?timeout=1ns"),
    Query("a timeout of many hours", lambda: f"{MAPS}?timeout={'1h' * 300_000}"),
    Query("a timeout of many digits", lambda: f"{MAPS}?timeout={'9' * 100_000}s"),
    Query("a timeout with a long fraction", lambda: f"{MAPS}?timeout=0.{'9' * 300_000}s"),
    Query("a token for another namespace", lambda: f"{MAPS}?limit=5&continue={_token(f'{THEIRS}/canary' + chr(0))}"),
    Query("a token for an earlier key", lambda: f"{MAPS}?limit=5&continue={_token('/a' + chr(0), -1)}"),
    Query("a token that climbs", lambda: f"{MAPS}?limit=5&continue={_token(f'../{THEIRS}/')}"),
    Query("a token of a version of many digits", lambda: f"{MAPS}?limit=5&continue={_token('a', '9' * 5_000)}"),
    Query("a token of a version that is a fraction", lambda: f"{MAPS}?limit=5&continue={_token('a', 1e300)}"),
    Query(
        "a token that nests",
        lambda: f"{MAPS}?limit=5&continue=" + base64.urlsafe_b64encode(b'{"v":' + b"[" * 500_000).rstrip(b"=").decode(),
    ),
    Query("a token that fills it", lambda: f"{MAPS}?limit=5&continue={'A' * 900_000}"),
    Query("two hundred thousand parameters", lambda: f"{MAPS}?{'a=b&' * 200_000}"),
    Query("percent signs", lambda: f"{MAPS}?{'%' * 900_000}"),
    Query("bytes that are no UTF-8", lambda: f"{MAPS}?labelSelector={'%ff' * 300_000}"),
    Query("a Table", lambda: MAPS, headers=lambda: (TABLE,)),
    Query("a Table of everything in it", lambda: f"{CUSTOM}/vessels?includeObject=Object", headers=lambda: (TABLE,)),
    Query("fifty thousand media types", lambda: MAPS, headers=lambda: ("Accept: " + "a/b;q=0.1," * 60_000 + "*/*",)),
    Query("a media type with many parameters", lambda: MAPS, headers=lambda: ("Accept: application/json" + ";a=b" * 200_000,)),
    Query("a Table asked for very often", lambda: MAPS, headers=lambda: ("Accept: " + ",".join([TABLE[8:]] * 15_000),)),
    Query("exclusions from readiness", lambda: f"/readyz?verbose&{'exclude=a&' * 90_000}"),
)

PATHS: Final = (
    Query("a path of three hundred thousand slashes", lambda: "/api/v1/" + "/" * 60_000),
    Query("a name that fills the line", lambda: f"{MAPS}/{'n' * 60_000}"),
    Query("a path of a megabyte", lambda: f"{MAPS}/{'n' * 1_000_000}"),
    Query("a path of percent signs", lambda: f"{MAPS}/{'%2e%2e%2f' * 5_000}"),
    Query("a path out of the namespace", lambda: f"{MAPS}/../../{THEIRS}/secrets/canary"),
    Query("a path out of the namespace, escaped", lambda: f"{CORE}%2f..%2f{THEIRS}/secrets/canary"),
    Query("a namespace within a namespace", lambda: f"{CORE}/namespaces/{THEIRS}"),
    Query("a namespace within a namespace, changed", lambda: f"{CORE}/namespaces/{THEIRS}", "DELETE"),
    Query("a zero byte", lambda: f"{MAPS}/a%00b"),
    Query("a subresource of a subresource", lambda: f"{APPS}/deployments/target/" + "status/" * 8_000),
    Query("all secrets", lambda: "/api/v1/secrets"),
    Query("the other's secrets", lambda: f"/api/v1/namespaces/{THEIRS}/secrets"),
    Query("the other's secrets, watched", lambda: f"/api/v1/namespaces/{THEIRS}/secrets?watch=1&timeoutSeconds=1"),
    Query("the other's secrets, by the old watch", lambda: f"/api/v1/watch/namespaces/{THEIRS}/secrets?timeoutSeconds=1"),
    Query("the other's secrets, deleted", lambda: f"/api/v1/namespaces/{THEIRS}/secrets", "DELETE"),
    Query("the other's canary, by the proxy", lambda: f"{CORE}/pods/target/proxy/../../{THEIRS}"),
    Query("openapi with a hash that fills it", lambda: f"/openapi/v3/api/v1?hash={'A' * 900_000}"),
    Query("openapi of a long path", lambda: "/openapi/v3/" + "a/" * 30_000),
    Query("openapi v2", lambda: "/openapi/v2"),
)

METHODS: Final = (
    Query("BREW", lambda: MAPS, "BREW"),
    Query("CONNECT", lambda: MAPS, "CONNECT"),
    Query("TRACE", lambda: MAPS, "TRACE"),
    Query("OPTIONS", lambda: MAPS, "OPTIONS"),
    Query("HEAD", lambda: MAPS, "HEAD"),
    Query("a method that fills the line", lambda: MAPS, "A" * 100_000),
    Query("DELETE of everything", lambda: "/api/v1/configmaps", "DELETE"),
    Query("DELETE of the namespaces", lambda: "/api/v1/namespaces", "DELETE"),
)

HEADERS: Final = (
    Query("headers of a megabyte", lambda: MAPS, headers=lambda: tuple(f"X-{n}: {'v' * 9_000}" for n in range(100))),
    Query("sixty thousand headers", lambda: MAPS, headers=lambda: tuple(f"A{n}: b" for n in range(60_000))),
    Query("one header that never ends", lambda: MAPS, headers=lambda: ("X: " + "v" * 3_000_000,)),
    Query("a token that fills a header", lambda: MAPS, headers=lambda: ("Authorization: Bearer " + "a." * 450_000,)),
    Query("tokens in ten thousand headers", lambda: MAPS, headers=lambda: ("Authorization: Bearer a.b.c",) * 10_000),
    Query(
        "a token that says it needs no signature",
        lambda: MAPS,
        headers=lambda: (_jwt(b'{"alg":"none"}', b'{"sub":"system:admin","iss":"https://kubernetes.default.svc"}'),),
    ),
    Query("a token that nests", lambda: MAPS, headers=lambda: (_jwt(b"[" * 300_000, b"{}"),)),
    Query("a token whose claims nest", lambda: MAPS, headers=lambda: (_jwt(b'{"alg":"RS256"}', b'{"a":' * 60_000),)),
    Query(
        "a token with a number of many digits",
        lambda: MAPS,
        headers=lambda: (_jwt(b'{"alg":"RS256"}', b'{"exp":' + b"9" * 100_000 + b"}"),),
    ),
    Query(
        "a user who would be another",
        lambda: MAPS,
        headers=lambda: ("Impersonate-User: admin", "Impersonate-Group: system:masters"),
    ),
    Query(
        "ten thousand groups to be",
        lambda: MAPS,
        headers=lambda: ("Impersonate-User: u", *(f"Impersonate-Group: g{n}" for n in range(10_000))),
    ),
    Query(
        "ten thousand extras to be",
        lambda: MAPS,
        headers=lambda: ("Impersonate-User: u", *(f"Impersonate-Extra-k{n}: v" for n in range(10_000))),
    ),
    Query("a tag that fills a header", lambda: "/openapi/v2", headers=lambda: ("If-None-Match: " + '"a",' * 200_000,)),
    Query(
        "an upgrade",
        lambda: f"{CORE}/pods/target/exec?command=sh",
        headers=lambda: (
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ),
    ),
    Query("an expectation", lambda: MAPS, headers=lambda: ("Expect: 100-continue",)),
    Query("two hosts", lambda: MAPS, headers=lambda: ("Host: other",)),
)

ALL: Final = (*SELECTORS, *LISTS, *PATHS, *METHODS, *HEADERS)

_GET: Final = f"GET {MAPS} HTTP/1.1\r\nHost: api\r\n".encode()
_POST: Final = f"POST {MAPS} HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n".encode()
_STEAL: Final = f"GET /api/v1/namespaces/{THEIRS}/secrets HTTP/1.1\r\nHost: api\r\n\r\n".encode()


@dataclass(frozen=True, slots=True)
class Bytes:
    """What is sent on a connection as it is; `{auth}` in it becomes the actor's header."""

    id: str
    make: Callable[[bytes], bytes]

    def __str__(self) -> str:
        return self.id


RAW: Final = (
    Bytes(
        "a length and chunks",
        lambda auth: _POST + auth + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _STEAL,
    ),
    Bytes(
        "chunks and a length of nothing",
        lambda auth: _POST + auth + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    ),
    Bytes("two lengths", lambda auth: _POST + auth + b"Content-Length: 0\r\nContent-Length: 100\r\n\r\n" + _STEAL),
    Bytes("a length that is negative", lambda auth: _POST + auth + b"Content-Length: -1\r\n\r\n"),
    Bytes("a length of many digits", lambda auth: _POST + auth + b"Content-Length: " + b"9" * 100 + b"\r\n\r\n"),
    Bytes("chunks of an odd kind", lambda auth: _POST + auth + b"Transfer-Encoding: xchunked, gzip\r\n\r\n0\r\n\r\n"),
    Bytes("a chunk of a great size", lambda auth: _POST + auth + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"),
    Bytes(
        "a chunk with a long extension",
        lambda auth: _POST + auth + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 3_000_000 + b"\r\n{\r\n0\r\n\r\n",
    ),
    Bytes(
        "a million chunks of a byte",
        lambda auth: _POST + auth + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 500_000 + b"0\r\n\r\n",
    ),
    Bytes("trailers", lambda auth: _POST + auth + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 300_000 + b"\r\n"),
    Bytes("a header with a zero byte", lambda auth: _GET + auth + b"X: a\0b\r\n\r\n"),
    Bytes("a header that is folded", lambda auth: _GET + auth + b"X: a\r\n" + b" b\r\n" * 100_000 + b"\r\n"),
    Bytes("a blank before the colon", lambda auth: _GET + auth + b"Content-Length : 5\r\n\r\n"),
    Bytes("a line without a carriage return", lambda auth: (_GET + auth + b"\r\n").replace(b"\r", b"")),
    Bytes("no version", lambda auth: f"GET {MAPS}\r\n\r\n".encode()),
    Bytes("an old version", lambda auth: _GET.replace(b"1.1", b"1.0") + auth + b"\r\n"),
    Bytes("a future version", lambda auth: _GET.replace(b"1.1", b"9.9") + auth + b"\r\n"),
    Bytes("the beginning of HTTP/2", lambda auth: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 100_000),
    Bytes("nonsense", lambda auth: bytes(range(256)) * 4_000),
    Bytes("blank lines", lambda auth: b"\r\n" * 500_000),
    Bytes("an address of another server", lambda auth: b"GET http://other/readyz HTTP/1.1\r\nHost: api\r\n\r\n"),
    Bytes("two thousand requests at once", lambda auth: (_GET + auth + b"\r\n") * 2_000),
    Bytes(
        "a body behind a request that wants none",
        lambda auth: _GET + auth + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000,
    ),
)

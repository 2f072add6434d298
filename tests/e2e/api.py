"""A bare HTTP client for the suite: it shows what is on the wire and hides nothing, unlike a Kubernetes client."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import urllib3

from .control_plane import ControlPlane

Json = dict[str, Any]
READ_SECONDS = 30.0
WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that was read to its end."""

    code: int
    headers: Mapping[str, str]
    raw: bytes
    warnings: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        """The decoded body, or None where it is not JSON."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    @property
    def obj(self) -> Json:
        found = self.json
        assert isinstance(found, dict), f"{self.code}: {self.raw[:300]!r}"
        return found

    @property
    def reason(self) -> str:
        return str(self._status().get("reason", ""))

    @property
    def message(self) -> str:
        return str(self._status().get("message", ""))

    @property
    def causes(self) -> list[Json]:
        return list(self._status().get("details", {}).get("causes", []))

    def _status(self) -> Json:
        found = self.json
        return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


class Watch:
    """An open watch. Iterating gives events until the server ends it or `READ_SECONDS` pass in silence."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.response = response
        self.code = response.status
        self._lines = self._split()

    def _split(self) -> Iterator[bytes]:
        rest = b""
        while chunk := self.response.read1():
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line for line in lines if line)
        if rest:
            yield rest

    def __iter__(self) -> Iterator[Json]:
        for line in self._lines:
            yield json.loads(line)

    def take(self, count: int) -> list[Json]:
        """The next `count` events; fewer where the server ends the watch before."""
        found: list[Json] = []
        while len(found) < count:
            line = next(self._lines, None)
            if line is None:
                break
            found.append(json.loads(line))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.response.close()


class Api:
    """Requests with the admin's token, or another one's, or none (`token=""`). So many `connections` are kept, each of which is
    there after `connect` seconds."""

    def __init__(self, plane: ControlPlane, *, token: str | None = None, connections: int = 8, connect: float = 10.0) -> None:
        self.plane = plane
        self.token = plane.admin_token if token is None else token
        trust: Json = {"ca_certs": plane.ca_file} if plane.ca_file else {"cert_reqs": "CERT_NONE", "assert_hostname": False}
        self._pool = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=connect, read=READ_SECONDS), maxsize=connections, **trust
        )

    def call(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        sent = self._headers(body, headers)
        response = self._pool.request(method, self.plane.url + path, body=encode(body), headers=sent)
        warnings = tuple(re.sub(r"\\(.)", r"\1", text) for text in WARNING.findall(response.headers.get("Warning", "")))
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response.data, warnings)

    def watch(self, path: str, *, headers: Mapping[str, str] | None = None) -> Watch:
        mark = "&" if "?" in path else "?"
        url = f"{self.plane.url}{path}{mark}watch=true"
        return Watch(self._pool.request("GET", url, headers=self._headers(None, headers), preload_content=False))

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def create(self, path: str, body: Json) -> Json:
        return self._must("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        return self._must("PUT", path, body)

    def merge(self, path: str, body: Json) -> Json:
        return self._must("PATCH", path, body, {"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str, body: Json | None = None) -> Json:
        return self._must("DELETE", path, body)

    def _must(self, method: str, path: str, body: object, headers: Mapping[str, str] | None = None) -> Json:
        """Who is told to try again does, after the time that was said and ten times at most, as the clients of people do."""
        for _ in range(10):
            answer = self.call(method, path, body, headers=headers)
            if answer.code != 429 or "retry-after" not in answer.headers:
                break
            time.sleep(float(answer.headers["retry-after"]))
        assert answer.code in {200, 201, 202}, f"{method} {path}: {answer.code} {answer.raw[:500]!r}"
        return answer.obj

    def _headers(self, body: object, more: Mapping[str, str] | None) -> dict[str, str]:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        return {**sent, **(more or {})}


def encode(body: object) -> bytes | None:
    """Text and bytes go as they are, so that a test can send what no encoder would make."""
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()

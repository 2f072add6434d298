"""How long a request may take: as long as its `?timeout=` says, at most as long as the server allows.

The deadline travels with the request, unseen, as it does in kube-apiserver: whoever asks another server on the way (a webhook)
tells it what is left. What the server does on its own has none.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import msgspec

from ullage.standalone.apiserver.request.answers import Answer, error_answer
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import ApiError, bad_request

WRITE_SECONDS: Final = 34.0  # more than that no write gets, whatever its client says
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Answers that take as long as their client wants: `timeout` says nothing about them.
_ENDLESS: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")
_LARGEST: Final = 2**63 - 1  # nanoseconds

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a request is given. `as_write`: less than it may have otherwise, since it changes something."""

    seconds: float
    as_write: bool = False

    def spent(self) -> Answer:
        """504. The one that is told by the outermost layer of kube-apiserver has no kind, and calls itself text."""
        if self.as_write:
            return error_answer(_timeout("within requested timeout - context deadline exceeded"))
        status = _timeout("within the allotted timeout").status()
        del status["kind"], status["apiVersion"]
        return Answer(504, msgspec.json.encode(status), "text/plain; charset=utf-8")


def _timeout(text: str) -> ApiError:
    return ApiError(504, "Timeout", f"Timeout: request did not complete {text}", details={})


def allowance(request: Request, most: float) -> Allowance:
    """How long a request may take; a stream may without end. Raises 400 where `timeout` cannot be read."""
    if request.verb == "watch" or request.target.subresource in _ENDLESS:
        return Allowance(math.inf)
    seconds = most
    if text := request.param("timeout"):
        try:
            wanted = parse_duration(text) / 10**9
        except ValueError as error:
            raise bad_request(f"invalid timeout specified in the request URL - {error}") from None
        seconds = wanted if 0 < wanted < most else most  # nothing, or less than that, asks for nothing
    as_write = request.target.served and request.verb in _WRITES and seconds > WRITE_SECONDS
    return Allowance(WRITE_SECONDS, as_write=True) if as_write else Allowance(seconds)


@contextmanager
def ending(at: float) -> Iterator[None]:
    """What is done inside is for a request that ends at this moment, on the clock of the event loop."""
    before = _deadline.set(at)
    try:
        yield
    finally:
        _deadline.reset(before)


def remaining() -> float:
    """Seconds that are left of the request that is being answered."""
    at = _deadline.get()
    return at if at == math.inf else at - asyncio.get_running_loop().time()


def parse_duration(text: str) -> int:
    """Nanoseconds, from `1h2m3.5s`. Raises ValueError in the words of Go, whose clients read them."""
    rest = text[1:] if text.startswith(("+", "-")) else text
    if rest == "0":
        return 0
    terms = [found for found in _TERM.finditer(rest) if found[0]]
    invalid = ValueError(f"time: invalid duration {_quoted(text)}")
    if not terms:
        raise invalid
    total = 0
    for term in terms:
        whole, fraction, unit = term.groups(default="")
        if not whole + fraction or len(whole.lstrip("0")) > 19:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        digits = fraction[:18]  # the rest is less than a nanosecond of an hour
        total += int(whole or 0) * _UNITS[unit] + int(digits or 0) * _UNITS[unit] // 10 ** len(digits)
        if total > _LARGEST:
            raise invalid
    return -total if text.startswith("-") else total


def _quoted(text: str) -> str:
    """As Go's package `time` quotes: bytes of what is no plain character are written out."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(one: str) -> str:
    if " " <= one < "\x80":
        return f"\\{one}" if one in '"\\' else one
    return "".join(f"\\x{byte:02x}" for byte in one.encode())

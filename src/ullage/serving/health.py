"""`/healthz`, `/readyz` and `/metrics`: the same words on every port of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest

TEXT: Final = b"text/plain; charset=utf-8"
METRICS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class HealthPage(NamedTuple):
    code: int
    body: bytes
    type: bytes = TEXT


def health_page(
    path: str, checks: Callable[[], Mapping[str, bool]], registries: Callable[[], Iterable[CollectorRegistry]]
) -> HealthPage | None:
    """None for any other path. `checks` is what readiness consists of when it is asked for; `registries`, what is measured."""
    match path:
        case "/healthz":
            return HealthPage(200, b"ok\n")
        case "/readyz":
            results = checks()
            lines = "".join(f"[{'+' if holds else '-'}] {name}\n" for name, holds in results.items())
            return HealthPage(200 if all(results.values()) else 503, lines.encode())
        case "/metrics":
            return HealthPage(200, b"".join(generate_latest(registry) for registry in registries()), METRICS)
    return None

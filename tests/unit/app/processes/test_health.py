"""What probes and scrapes are told."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter

from ullage.app.processes.controller import Health


@pytest.mark.parametrize(
    ("method", "path", "code", "body"),
    [
        pytest.param("GET", "/healthz", 200, b"ok\n", id="alive"),
        pytest.param("GET", "/readyz", 503, b"[+] a\n[-] b\n", id="not ready, and why"),
        pytest.param("POST", "/healthz", 405, b"only GET and HEAD\n", id="nothing is posted"),
        pytest.param("GET", "/", 404, b"not found\n", id="nothing else"),
    ],
)
def test_what_a_probe_is_told(method: str, path: str, code: int, body: bytes) -> None:
    page = Health(lambda: {"a": True, "b": False}, lambda: ()).answer(method, path)
    assert (page.code, page.body, page.type) == (code, body, b"text/plain; charset=utf-8")


def test_metrics_of_all_registries_are_one_page() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    for registry, name in zip(registries, ("one", "two"), strict=True):
        Counter(name, "x", registry=registry).inc()
    page = Health(dict, lambda: registries).answer("GET", "/metrics")
    assert b"one_total 1.0" in page.body
    assert b"two_total 1.0" in page.body
    assert page.type == b"text/plain; version=0.0.4; charset=utf-8"

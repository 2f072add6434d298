"""How slices become processes: shared caches, hooks that cannot lock themselves out, health."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from tests.e2e.sample_app import BARRELS, CASKS, SLICE
from ullage.app.health import Health
from ullage.app.processes import refuse_self_locking
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Part, Wiring


def wiring() -> Wiring:
    return Wiring(Client(Config(server="https://127.0.0.1:1")))


async def test_parts_that_watch_the_same_share_a_cache() -> None:
    found = wiring()

    def make(given: Wiring) -> list[Cache[Any]]:
        return [given.cache(BARRELS), given.cache(BARRELS), given.cache(BARRELS, namespace="a")]

    part: Part[Cache[Any]] = Part(make=make, watches=(BARRELS,))
    whole, again, one = found.made(part)
    assert whole is again
    assert whole is not one
    assert found.made(part)[0] is whole
    assert found.caches == [whole, one]


async def test_a_cache_of_a_kind_that_was_not_declared_is_refused() -> None:
    part: Part[Cache[Any]] = Part(make=lambda given: [given.cache(CASKS)], watches=(BARRELS,))
    with pytest.raises(LookupError, match=r"casks\.other\.example\.com"):
        wiring().made(part)


async def test_the_sample_slice_asks_only_for_what_it_declares() -> None:
    found = wiring()
    assert SLICE.controllers is not None
    assert SLICE.hooks is not None
    assert [made.name for made in found.made(SLICE.controllers)] == ["barrels"]
    assert [made.name for made in found.made(SLICE.hooks)] == ["barrels"]
    assert len(found.held) == 1, "the recorder of events"


async def allow(review: Review) -> Decision:
    return Decision.allow()


def hook(resources: tuple[str, ...], *, group: str = "", **more: Any) -> Hook:
    target = Target(groups=(group,), versions=("v1",), resources=resources, operations=("CREATE",), scope="Namespaced")
    return Hook(name="h", phase="validate", targets=(target,), answer=allow, **more)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(hook(("secrets",)), id="the certificate is a secret"),
        pytest.param(hook(("pods", "configmaps")), id="one of several"),
        pytest.param(hook(("serviceaccounts/token",)), id="tokens are asked for at every start"),
        pytest.param(hook(("serviceaccounts/*",)), id="all subresources"),
        pytest.param(hook(("*/*",)), id="everything"),
        pytest.param(hook(("leases",), group="*"), id="in every group"),
        pytest.param(hook(("secrets",), only_in=("ullage-system",)), id="only there"),
        pytest.param(hook(("secrets",), not_in=("kube-system",)), id="another namespace is left out"),
    ],
)
def test_a_hook_that_would_wait_for_itself_is_refused(bad: Hook) -> None:
    with pytest.raises(ValueError, match="exclude that namespace"):
        refuse_self_locking([hook(("pods",)), bad])


@pytest.mark.parametrize(
    "good",
    [
        pytest.param(hook(("pods",)), id="what we do not write"),
        pytest.param(hook(("secrets",), group="example.com"), id="the same word in another group"),
        pytest.param(hook(("secrets",), not_in=("ullage-system",)), id="our namespace is left out"),
        pytest.param(hook(("secrets",), only_in=("a",)), id="only elsewhere"),
        pytest.param(hook(("secrets",), failure_policy="Ignore"), id="one that nobody waits for"),
        pytest.param(hook(("serviceaccounts/status",)), id="another subresource"),
    ],
)
def test_other_hooks_are_taken(good: Hook) -> None:
    refuse_self_locking([good])


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
    status, _, told = Health(lambda: {"a": True, "b": False}, lambda: ()).answer(method, path)
    assert (status, told) == (code, body)


def test_metrics_of_all_registries_are_one_page() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    for registry, name in zip(registries, ("one", "two"), strict=True):
        Counter(name, "x", registry=registry).inc()
    _, _, page = Health(dict, lambda: registries).answer("GET", "/metrics")
    assert b"one_total 1.0" in page
    assert b"two_total 1.0" in page

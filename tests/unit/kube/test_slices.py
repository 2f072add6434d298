"""Slices: what shares a cache, and what was not declared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.sample_app import BARRELS, CASKS, SLICE
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.slices import Part, Slice, Wiring


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


async def test_what_is_shared_is_made_once_and_before_the_rest_of_any_slice() -> None:
    found, order = wiring(), []

    def part(said: str) -> Part[Any]:
        def make(given: Wiring) -> list[Any]:
            order.append((said, given.shared(count)))
            return []

        return Part(make=make)

    def count(given: Wiring) -> int:
        return len(order)

    slices = [Slice(name=name, shared=part(f"{name}: shared"), hooks=part(f"{name}: hooks")) for name in ("a", "b")]
    assert found.hooks(slices) == []
    assert order == [("a: shared", 0), ("b: shared", 0), ("a: hooks", 0), ("b: hooks", 0)]


async def test_the_sample_slice_asks_only_for_what_it_declares() -> None:
    found = wiring()
    assert SLICE.controllers is not None
    assert SLICE.hooks is not None
    assert [made.name for made in found.made(SLICE.controllers)] == ["barrels"]
    assert [made.name for made in found.made(SLICE.hooks)] == ["barrels"]
    assert len(found.held) == 1, "the recorder of events"


async def test_secrets_are_read_by_a_name_that_was_declared_and_by_no_other() -> None:
    found = wiring()
    part: Part[Cache[Any]] = Part(
        make=lambda given: [given.secrets("a"), given.secrets("b", namespace="n")], named_secrets=("a",), own_secrets=("b",)
    )
    assert [cache.whole for cache in found.made(part)] == [False, False]
    assert found.made(part) == found.caches
    other: Part[Cache[Any]] = Part(make=lambda given: [given.secrets("c")], named_secrets=("a",))
    with pytest.raises(LookupError, match="secrets called c"):
        found.made(other)

"""The key that signs stamps: made once, shared by all, and changed without a restart."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.ledger.slices import running
from tests.unit.projects.seed_scene import Seed
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.identities import NAMESPACE
from ullage.kube.kinds import Meta
from ullage.kube.slices import Part, Wiring
from ullage.projects.charging.keys import STAMP_KEYS, NoSigningKey, StampKeys, read_keys, stamp_keys
from ullage.projects.machines.signatures import BadSigningKey, SigningKeys

OLD, NEW = b"o" * 32, b"n" * 32


def secret(**entries: bytes) -> Secret:
    return Secret(metadata=Meta(name=STAMP_KEYS, namespace=NAMESPACE), data=secret_data(entries))


def wired(seed: Seed) -> tuple[Wiring, StampKeys]:
    wiring = Wiring(cast(Client, seed), clock=VirtualClock())
    (keys,) = wiring.made(Part(make=lambda given: [given.shared(stamp_keys)], own_secrets=(STAMP_KEYS,)))
    return wiring, keys


def test_whoever_comes_first_makes_the_key_and_all_have_the_same() -> None:
    async def main() -> None:
        seed = Seed()
        (one, mine), (other, yours) = wired(seed), wired(seed)
        with pytest.raises(NoSigningKey):
            mine.current.signs  # noqa: B018  # it is not read yet
        async with running(one), running(other):
            assert mine.current == yours.current == read_keys(seed.get(SECRETS, Key(NAMESPACE, STAMP_KEYS)))

    in_virtual_time(main())


def test_a_key_that_changes_is_read_again_and_told_and_one_that_cannot_be_used_or_goes_changes_nothing() -> None:
    async def main() -> None:
        seed, told = Seed(), 0
        seed.put(SECRETS, secret(signs=OLD))
        wiring, keys = wired(seed)

        def count() -> None:
            nonlocal told
            told += 1

        async with running(wiring):
            keys.handle(count)
            seed.put(SECRETS, secret(signs=NEW, accepted=OLD))
            await asyncio.sleep(1)
            assert (keys.current, told) == (SigningKeys(NEW, OLD), 1)
            seed.put(SECRETS, secret(signs=b"short"))
            await asyncio.sleep(1)
            seed.drop(SECRETS, Key(NAMESPACE, STAMP_KEYS))
            await asyncio.sleep(1)
            assert (keys.current, told) == (SigningKeys(NEW, OLD), 1)

    in_virtual_time(main())


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param({}, id="none at all"),
        pytest.param({"signs": "%%%"}, id="no base64"),
        pytest.param(secret_data({"signs": b"short"}), id="too short"),
        pytest.param(secret_data({"signs": OLD, "accepted": OLD}), id="twice the same"),
    ],
)
def test_a_key_that_cannot_be_used_is_said_and_not_shown(entries: dict[str, Any]) -> None:
    with pytest.raises(BadSigningKey) as raised:
        read_keys(Secret(metadata=Meta(name=STAMP_KEYS, namespace=NAMESPACE), data=entries))
    assert all(value not in str(raised.value) for value in entries.values())

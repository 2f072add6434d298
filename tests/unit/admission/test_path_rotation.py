"""The paths of our own hooks on an API in memory: first starts, restarts, an upgrade, Secrets that are rolled back."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging

import pytest

from tests.unit.admission.builders import FakeApi
from ullage.admission import registration
from ullage.admission.callers import split_path
from ullage.admission.path_rotation import PathRotation
from ullage.admission.paths import BadPaths, Paths, PathStep, PathTerms
from ullage.admission.registration import ByUrl, Published, Registration
from ullage.admission.selftest import selftest_hook
from ullage.clock import FakeClock
from ullage.kube.builtin.admissionregistration import VALIDATING_WEBHOOKS
from ullage.serving.rotation import SecretName

TERMS = PathTerms(settle=120.0, keep=90.0, every=3600.0)
KEYS = itertools.count(1)
ADDRESS = ByUrl("https://127.0.0.1:1/base")  # a proxy may strip the beginning


class Replica:
    def __init__(self, api: FakeApi, clock: FakeClock) -> None:
        self.api, self.clock = api, clock
        self.registration = Registration("ullage", (selftest_hook("system"),), ADDRESS)
        self.served = Paths(["selftest"])
        self.paths = PathRotation(
            api.client,
            self.served,
            secret_name=SecretName("system", "paths"),
            registered=self.registration,
            terms=TERMS,
            new=lambda size: next(KEYS).to_bytes(size, "big"),
            clock=clock,
        )

    async def look(self) -> Published:
        return await registration.read(self.api.client, self.registration)

    async def publish(self) -> None:
        seen = await self.look()
        wanted = Registration("ullage", self.registration.hooks, ADDRESS, tokens=await self.paths.tokens(seen))
        await registration.register(self.api.client, wanted, bundle=b"PEM", seen=seen)

    async def start(self) -> str:
        await self.paths.open(self.look)
        await self.publish()
        return registered(self.api)

    async def round(self) -> PathStep | None:
        return await self.paths._round(await self.look(), publish=self.publish)

    async def settle(self) -> list[PathStep]:
        steps = []
        while (step := await self.round()) is not None:
            steps.append(step)
        return steps

    def serves(self, token: str) -> bool:
        return self.served.is_known("selftest", token)


def registered(api: FakeApi) -> str:
    """The registered token."""
    [entry] = api.objects["ValidatingWebhookConfiguration", "ullage"]["webhooks"]
    name, token = split_path(entry["clientConfig"]["url"].removeprefix("https://127.0.0.1:1/base"))
    assert name == "selftest"
    return token


def register(api: FakeApi, token: str) -> None:
    """What another release, or a restored backup, has registered."""
    hooks = (selftest_hook("system"),)
    tokens = {"selftest": token} if token else {}
    body = Registration("ullage", hooks, ADDRESS, tokens=tokens).configuration(VALIDATING_WEBHOOKS, b"PEM")
    api._store(VALIDATING_WEBHOOKS, json.loads(json.dumps(body)), "apply")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_first_start_registers_a_path_that_two_replicas_serve(api: FakeApi, clock: FakeClock) -> None:
    replicas = [Replica(api, clock) for _ in range(2)]
    await asyncio.gather(*(replica.paths.open(replica.look) for replica in replicas))
    for replica in replicas:
        await replica.publish()
    token = registered(api)
    assert len(token) == 64
    assert all(replica.serves(token) and not replica.serves("") for replica in replicas)
    assert await replicas[0].settle() == []


async def test_a_restart_while_another_serves_changes_the_path_and_neither_misses_a_request(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    one = Replica(api, clock)
    burned = await one.start()

    other = Replica(api, clock)
    fresh = await other.start()

    assert fresh != burned
    assert all(replica.serves(burned) and replica.serves(fresh) for replica in (one, other)), "`one` has not looked since"
    assert await other.settle() == []
    clock.advance(TERMS.keep - 1)
    assert await other.settle() == []
    assert other.serves(burned)
    clock.advance(1)
    assert await other.settle() == [PathStep.RETIRE]
    assert not other.serves(burned)
    assert await one.settle() == []
    assert not one.serves(burned)
    assert one.serves(fresh)
    shown = caplog.text + repr(one.registration) + repr(await one.look())
    assert fresh not in shown
    assert burned not in shown


async def test_an_upgrade_waits_for_replicas_that_know_no_tokens_and_then_serves_no_plain_path(
    api: FakeApi, clock: FakeClock
) -> None:
    register(api, "")
    replica = Replica(api, clock)
    assert await replica.start() == "", "a replica of the earlier release may be asked"
    assert replica.serves("")
    clock.advance(TERMS.settle - 1)
    assert await replica.settle() == []
    clock.advance(1)
    assert await replica.settle() == [PathStep.PUBLISH]
    token = registered(api)
    assert token
    assert replica.serves("")
    assert replica.serves(token)
    clock.advance(TERMS.keep)
    assert await replica.settle() == [PathStep.RETIRE]
    assert not replica.serves("")
    assert replica.serves(token)


async def test_a_restart_in_the_middle_of_an_upgrade_goes_on_with_it(api: FakeApi, clock: FakeClock) -> None:
    register(api, "")
    await Replica(api, clock).start()
    again = Replica(api, clock)
    assert await again.start() == ""
    assert again.serves("")


async def test_a_secret_that_was_rolled_back_brings_no_printed_path_back(api: FakeApi, clock: FakeClock) -> None:
    running = Replica(api, clock)
    old = {await running.start()}
    backup = dict(api.objects["Secret", "paths"])
    await running.settle()
    for _ in range(3):
        clock.advance(TERMS.every)
        await running.settle()
        clock.advance(TERMS.keep)
        await running.settle()
        old.add(registered(api))
    assert len(old) == 4

    api.objects["Secret", "paths"] = backup | {"metadata": api.objects["Secret", "paths"]["metadata"]}
    assert await running.settle() == [PathStep.CATCH_UP]
    assert registered(api) in old
    assert running.serves(registered(api))

    api.objects["Secret", "paths"] = backup | {"metadata": api.objects["Secret", "paths"]["metadata"]}
    fresh = await Replica(api, clock).start()
    assert fresh not in old


async def test_a_secret_that_is_deleted_comes_back_as_it_was(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    token = await replica.start()
    del api.objects["Secret", "paths"]
    assert await replica.settle() == []
    assert Replica(api, clock).serves(token) is False
    other = Replica(api, clock)
    await other.paths.open(other.look)
    assert other.serves(token)


async def test_a_secret_of_another_cluster_is_taken_over_and_what_was_served_stays_for_a_while(
    api: FakeApi, clock: FakeClock
) -> None:
    running, foreign_api = Replica(api, clock), FakeApi()
    token = await running.start()
    await Replica(foreign_api, clock).start()
    api.objects["Secret", "paths"]["data"] = foreign_api.objects["Secret", "paths"]["data"]

    assert await running.settle() == [PathStep.PUBLISH]
    assert running.serves(token)
    assert running.serves(registered(api))
    assert registered(api) != token
    clock.advance(TERMS.keep)
    await running.settle()
    assert not running.serves(token)

    register(api, "ab" * 32)
    assert await Replica(api, clock).start() not in ("ab" * 32, token)


async def test_after_requests_did_not_arrive_there_are_new_paths_at_once(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    printed = await replica.start()
    replica.paths.was_away()
    assert await replica.settle() == [PathStep.ROTATE, PathStep.PUBLISH]
    assert registered(api) != printed
    assert await replica.settle() == []


async def test_a_spoilt_secret_stops_a_start_and_keeps_what_is_served(api: FakeApi, clock: FakeClock) -> None:
    replica = Replica(api, clock)
    token = await replica.start()
    api.objects["Secret", "paths"]["data"] = {}
    with pytest.raises(BadPaths, match="secret system/paths: number is no number"):
        await replica.round()
    assert replica.serves(token)
    with pytest.raises(BadPaths):
        await Replica(api, clock).start()

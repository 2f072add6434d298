"""Addresses and node ports: two requests at one moment never get the same, and nothing is lost when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ullage.standalone.apiserver.kinds.service_addresses import SERVICES, ServiceAddresses
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.store import Store

Story = Callable[[Store, ServiceAddresses], Awaitable[None]]


def service(name: str, *numbers: int, **spec: Any) -> Json:
    ports = [{"port": 80 + at, "protocol": "TCP", "nodePort": number} for at, number in enumerate(numbers)]
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"type": "NodePort" if numbers else "ClusterIP", "ports": ports or [{"port": 80}], **spec},
    }


def told(path: Path, story: Story) -> None:
    async def run() -> None:
        store = Store(Database(path / "state.db", durable=False))
        try:
            await story(store, ServiceAddresses(store))
        finally:
            await store.close()

    asyncio.run(run())


async def attempt(addresses: ServiceAddresses, obj: Json, until: asyncio.Event | None = None) -> Json:
    """A request that is given something, waits (for a webhook, say) and is then gone without a write."""
    addresses.allocate(obj)
    if until is not None:
        await until.wait()
    return obj


async def write(store: Store, addresses: ServiceAddresses, obj: Json) -> Json:
    addresses.allocate(obj)
    await asyncio.sleep(0)  # where a webhook would be asked
    await store.stage(SERVICES, obj, expect=0)
    return obj


def refused(error: pytest.ExceptionInfo[ApiError], words: str) -> None:
    assert error.value.code == 422
    assert words in error.value.message


def test_requests_at_one_moment_get_different_addresses_and_ports(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        asked = [service(f"s{at}", type="NodePort") for at in range(200)]
        made = await asyncio.gather(*(write(store, addresses, obj) for obj in asked))
        assert len({obj["spec"]["clusterIP"] for obj in made}) == 200
        assert len({obj["spec"]["ports"][0]["nodePort"] for obj in made}) == 200

    told(tmp_path, story)


def test_of_two_requests_for_one_port_the_second_is_refused_while_the_first_is_on_its_way(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        done = asyncio.Event()
        first = asyncio.create_task(attempt(addresses, service("a", 31000), done))
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as error:
            await asyncio.create_task(attempt(addresses, service("b", 31000)))
        refused(error, "provided port is already allocated")
        done.set()
        await first

    told(tmp_path, story)


def test_what_a_failed_request_held_is_free_again(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        await asyncio.create_task(attempt(addresses, service("a", 31000, clusterIP="10.96.1.1")))
        await asyncio.sleep(0)
        again = await asyncio.create_task(write(store, addresses, service("b", 31000, clusterIP="10.96.1.1")))
        assert again["spec"]["ports"][0]["nodePort"] == 31000

    told(tmp_path, story)


def test_a_request_that_is_cancelled_holds_what_its_write_will_have(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        first = asyncio.create_task(write(store, addresses, service("a", 31000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is staged now
        first.cancel()
        await asyncio.wait((first,))
        with pytest.raises(ApiError) as error:
            await asyncio.create_task(attempt(addresses, service("b", 31000)))
        refused(error, "provided port is already allocated")

    told(tmp_path, story)


def test_a_service_that_goes_frees_what_it_had(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        obj = await asyncio.create_task(write(store, addresses, service("a", 31000)))
        held = store.get(SERVICES, "ns", "a")
        assert held is not None
        await store.stage_delete(SERVICES, obj, expect=held.rv)
        await asyncio.create_task(write(store, addresses, service("b", 31000)))

    told(tmp_path, story)


def test_what_is_taken_is_known_after_a_restart(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        await asyncio.create_task(write(store, addresses, service("a", 31000)))
        with pytest.raises(ApiError) as error:
            await asyncio.create_task(attempt(ServiceAddresses(store), service("b", 31000)))
        refused(error, "provided port is already allocated")

    told(tmp_path, story)


def test_a_service_keeps_what_it_has(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        obj = await asyncio.create_task(write(store, addresses, service("a", 31000)))
        await asyncio.create_task(attempt(addresses, obj))

    told(tmp_path, story)


def test_nothing_is_given_to_a_name_or_to_one_that_wants_no_address(tmp_path: Path) -> None:
    async def story(store: Store, addresses: ServiceAddresses) -> None:
        name = {"metadata": {"name": "n", "namespace": "ns"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}
        await asyncio.create_task(attempt(addresses, name))
        assert name["spec"] == {"type": "ExternalName", "externalName": "a.b"}
        bare = service("b", clusterIP="None")
        await asyncio.create_task(attempt(addresses, bare))
        assert bare["spec"]["clusterIP"] == "None"

    told(tmp_path, story)

"""A whole controller on the runtime: each Gauge gets a ConfigMap that tells its capacity, and a status once that is there."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping

import msgspec

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller.controller import Controller, own, owned, run
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.objects import is_deleting, owner_reference


class Gauge(Object):
    class Spec(Value):
        capacity: int = 0

    class Status(Value):
        level: int | None = None

    spec: Spec = Spec()
    status: Status = Status()


class ConfigMap(Object):
    data: Mapping[str, str] = {}


GAUGES = Kind("e2e.example.com", "v1", "Gauge", "gauges", Gauge, whole=False)
MAPS = Kind("", "v1", "ConfigMap", "configmaps", ConfigMap, whole=False, status=False)


async def main(namespace: str) -> None:
    async def reconcile(key: Key) -> None:
        gauge, found = gauges.get(key), maps.get(key)
        if gauge is None or is_deleting(gauge.metadata):
            return
        data, owner = {"capacity": str(gauge.spec.capacity)}, owner_reference(GAUGES, gauge.metadata, controller=True)
        if found is None or found.data != data or owner not in found.metadata.owner_references:
            meta = {"labels": {"app": "sample"}, "ownerReferences": [msgspec.to_builtins(owner)]}
            await client.patch(MAPS, key.name, key.namespace, apply={"metadata": meta, "data": data}, force=True)
        elif gauge.status.level != gauge.spec.capacity:
            status, version = {"status": {"level": gauge.spec.capacity}}, gauge.metadata.resource_version
            await client.patch(GAUGES, key.name, key.namespace, merge=status, subresource="status", resource_version=version)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, (stop := asyncio.Event()).set)
    async with Client(Config.load(), user_agent="sample") as client:
        gauges, maps = Cache(client, GAUGES, namespace=namespace), Cache(client, MAPS, namespace=namespace, labels="app=sample")
        await run([gauges, maps], [Controller("sample", [own(gauges), owned(maps, by=GAUGES)], reconcile)], stop=stop)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

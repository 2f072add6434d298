"""The operator on our runtime: an index by volume, and a status that repeats the size."""

from __future__ import annotations

import asyncio
import os
import signal

import uvloop

from bench.apiserver.load import GROUP
from bench.runtime.report import NAMESPACE, TOUCHED, say
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller.controller import Controller, own, run
from ullage.kube.kinds import Kind, Object, Value


class Spec(Value):
    volume: str = ""
    size: int = 0


class Status(Value):
    observed: int = 0


class Sample(Object):
    spec: Spec = Spec()
    status: Status = Status()


SAMPLES = Kind(GROUP, "v1", "Sample", "samples", Sample, whole=False)


async def main() -> None:
    say("started")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Client(Config.load()) as client:
        samples = Cache(client, SAMPLES, namespace=os.environ[NAMESPACE])
        samples.index("by_volume", lambda sample: (sample.spec.volume,))

        async def reconcile(key: Key) -> None:
            sample = samples.get(key)
            if sample is not None and sample.spec.size >= TOUCHED and sample.status.observed != sample.spec.size:
                status = {"status": {"observed": sample.spec.size}}
                await client.patch(SAMPLES, key.name, key.namespace, merge=status, subresource="status")

        controller = Controller("samples", [own(samples)], reconcile, workers=16)
        running = asyncio.create_task(run([samples], [controller], stop=stop))
        await samples.synced.wait()
        await controller.queue.drained()  # the peer's moment too: each object was looked at once
        say("synced")
        await running


if __name__ == "__main__":
    uvloop.run(main())

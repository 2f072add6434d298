"""A controller process that is asked to stop ends, whatever has become of the API and of what it is doing."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterable

import pytest

from ullage.app.processes.controller import ControllerSettings, run_controller
from ullage.app.processes.webhook import run_webhook, webhook_settings
from ullage.kube.cache.indexer import Key
from ullage.kube.client.config import Config
from ullage.kube.controller.candidate import Timing
from ullage.kube.controller.controller import Controller, own
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Part, Slice, Wiring

from .api import Api
from .cutter import Cutter
from .kinds import configmap

pytestmark = pytest.mark.skipif("E2E_CLUSTER" in os.environ, reason="the way to a server on this machine is cut")

MAPS = Kind("", "v1", "ConfigMap", "configmaps", Object, whole=False, status=False)
PATIENCE = 30.0  # several times what the end takes at most; it used to be for ever
# The lease is lost before the time is over that a reconcile has to end.
TIMING = Timing(duration=3.0, renew_within=1.0, retry=0.2)
GRACE = 2.0


class Stubborn:
    """A slice whose only reconcile begins, and never ends by itself."""

    def __init__(self, namespace: str) -> None:
        self.begun = asyncio.Event()
        self._namespace = namespace

    def slice(self) -> Slice:
        return Slice(name="stubborn", controllers=Part(make=self._controllers, watches=(MAPS,), events=True))

    def _controllers(self, wiring: Wiring) -> Iterable[Controller[Key]]:
        async def reconcile(key: Key) -> None:
            self.begun.set()
            await asyncio.Event().wait()

        wiring.recorder("stubborn")
        yield Controller("stubborn", [own(wiring.cache(MAPS, namespace=self._namespace))], reconcile, metrics=wiring.metrics)


def refuse(cutter: Cutter) -> None:
    cutter.refusing = True
    cutter.cut()


@pytest.mark.parametrize(
    ("away", "elects"),
    [
        pytest.param(refuse, True, id="the leader, the API away"),
        pytest.param(refuse, False, id="one without a lease, the API away"),
        pytest.param(Cutter.hush, True, id="the leader, the API silent"),
        pytest.param(lambda cutter: None, True, id="the leader, the API there"),
    ],
)
def test_a_controller_that_is_asked_to_stop_ends_while_a_reconcile_runs(
    api: Api, namespace: str, away: Callable[[Cutter], None], *, elects: bool
) -> None:
    api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("a"))

    async def scene() -> str:
        config = Config.load(api.plane.kubeconfig, environ={})
        upstream = int(config.server.rpartition(":")[2])
        async with Cutter(upstream) as cutter:
            config = dataclasses.replace(config, server=f"https://127.0.0.1:{cutter.port}")
            stubborn, stop = Stubborn(namespace), asyncio.Event()
            settings = ControllerSettings(
                leader_elect=elects, lease="stubborn", lease_namespace=namespace, timing=TIMING, grace=GRACE
            )
            running = asyncio.create_task(run_controller((stubborn.slice(),), config, settings, stop=stop))
            await asyncio.wait_for(stubborn.begun.wait(), PATIENCE)
            away(cutter)
            stop.set()
            await asyncio.wait({running}, timeout=PATIENCE)
            ended = running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return "ended" if ended else "hangs"

    assert asyncio.run(scene()) == "ended"
    if elects and away not in (refuse, Cutter.hush):
        lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/stubborn").obj
        assert lease["spec"]["holderIdentity"] == "", "the next one need not wait"


def test_a_webhook_that_is_asked_to_stop_before_it_could_read_its_certificate_ends_at_once(api: Api) -> None:
    async def scene() -> bool:
        config = Config.load(api.plane.kubeconfig, environ={})
        async with Cutter(int(config.server.rpartition(":")[2])) as cutter:
            cutter.hush()
            stop = asyncio.Event()
            config = dataclasses.replace(config, server=f"https://127.0.0.1:{cutter.port}")
            running = asyncio.create_task(run_webhook((), config, webhook_settings(), stop=stop))
            await asyncio.wait_for(cutter.connected.wait(), PATIENCE)
            stop.set()
            await asyncio.wait({running}, timeout=PATIENCE / 3)  # a request that gets no answer is given up after 70 s
            ended = running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return ended

    assert asyncio.run(scene())

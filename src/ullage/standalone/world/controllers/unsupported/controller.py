"""Deployments and their like: nobody here makes pods for them, and they say so."""

from __future__ import annotations

from ullage.clock import Clock
from ullage.kube.builtin.core import Workload
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, own
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.standalone.world.controllers.unsupported import rules

NOT_SUPPORTED = Reason(rules.REASON, action="Reconcile", type="Warning")


class UnsupportedController:
    """One kind of workload."""

    def __init__(
        self, client: Client, recorder: Recorder, *, clock: Clock, kind: Kind[Workload], workloads: Cache[Workload]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._kind = kind
        self._workloads = workloads

    async def reconcile(self, key: Key) -> None:
        found = self._workloads.get(key)
        if found is None or rules.is_idle(found):
            return
        status = rules.status_of(self._kind, found, now=self._clock.now())
        await patch_status(self._client, self._kind, found, old=found.status, new=status)
        if status.conditions != found.status.conditions or rules.CONDITIONS[self._kind] is None:
            self._recorder.record(self._kind, found, NOT_SUPPORTED, note=rules.message(self._kind))


def unsupported_controllers(wiring: Wiring, recorder: Recorder) -> list[Controller[Key]]:
    made = []
    for kind in rules.CONDITIONS:
        cache = wiring.cache(kind)
        one = UnsupportedController(wiring.client, recorder, clock=wiring.clock, kind=kind, workloads=cache)
        made.append(Controller(kind.plural, [own(cache)], one.reconcile, metrics=wiring.metrics))
    return made

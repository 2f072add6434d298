"""Namespaces: keeps the ResourceQuota of each as Rancher's annotation says, whoever changes it.

Others raise it for a while, to let a VM move; Rancher does not know of that, and puts it back. So does this, but not as fast as
the two can: after the second time later and later.
"""

from __future__ import annotations

from typing import Any, Final

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.builtin.core import CORE_QUOTAS, NAMESPACES, CoreQuota
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Object
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.lookup import is_edited
from ullage.standalone.world.quotas import DeleteQuotas, MakeQuota, QuotaPlan, ResetQuota, new_quota, plan_quota, reset

BY_NAMESPACE: Final = "namespace"
UNREADABLE: Final = Reason("UnreadableResourceQuota", action="Reading", type="Warning")


class NamespaceController:
    def __init__(
        self, client: Client, *, namespaces: Cache[Object], quotas: Cache[CoreQuota], recorder: Recorder, clock: Clock
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._quotas = quotas
        self._recorder = recorder
        self._clock = clock
        self._rewrites: Rewrites[str] = Rewrites()

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self._namespaces.get(key)
        if namespace is None:
            return None
        try:
            plan = plan_quota(namespace, self._quotas.by(BY_NAMESPACE, key.name))
        except BadInput as error:  # what stands there stays: a typo is no reason to let everything in
            self._recorder.record(NAMESPACES, namespace, UNREADABLE, note=str(error))
            raise
        try:
            return await self._act(namespace, plan)
        except NotFound:  # it went meanwhile
            return None

    async def _act(self, namespace: Object, plan: QuotaPlan | None) -> Requeue | None:
        match plan:
            case MakeQuota(hard):
                await calls.create(self._client, CORE_QUOTAS, new_quota(namespace.metadata, hard))
            case DeleteQuotas(quotas):
                for one in quotas:
                    await calls.delete(self._client, CORE_QUOTAS, one.metadata)
            case ResetQuota():
                return await self._reset(plan)
        return None

    async def _reset(self, plan: ResetQuota) -> Requeue | None:
        uid, what = plan.quota.metadata.uid, tuple(sorted(plan.hard.items()))
        if wait := self._rewrites.wait(uid, what, self._clock.monotonic()):
            return Requeue(wait)
        await patch_seen(self._client, CORE_QUOTAS, plan.quota, reset(plan))
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return None

    def forget(self, old: CoreQuota | None, new: CoreQuota | None) -> None:
        if new is None and old is not None:
            self._rewrites.forget(old.metadata.uid)


def namespace_controller(wiring: Wiring, recorder: Recorder) -> Controller[Key]:
    namespaces, quotas = wiring.cache(NAMESPACES), wiring.cache(CORE_QUOTAS)
    quotas.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
    made = NamespaceController(wiring.client, namespaces=namespaces, quotas=quotas, recorder=recorder, clock=wiring.clock)
    quotas.handle(made.forget)
    sources: list[Source[Any, Key]] = [
        own(namespaces),
        Source(quotas, lambda one: (Key("", one.metadata.namespace),), when=is_edited),
    ]
    return Controller("namespaces", sources, made.reconcile, workers=2, clock=wiring.clock, metrics=wiring.metrics)

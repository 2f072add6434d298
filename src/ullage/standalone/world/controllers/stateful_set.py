"""StatefulSets: they make claims and pods with numbers."""

from __future__ import annotations

from typing import Any

from ullage.kube.builtin.apps import STATEFUL_SETS, StatefulSet
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, Source, own, owned
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import stateful_set_rules as rules
from ullage.standalone.world.lookup import StorageLookup
from ullage.standalone.world.pod_owner import PodOwner


class StatefulSetController(PodOwner):
    def __init__(self, client: Client, storage: StorageLookup, recorder: Recorder, *, sets: Cache[StatefulSet]) -> None:
        super().__init__(STATEFUL_SETS, client, storage, recorder)
        self._sets = sets

    async def reconcile(self, key: Key) -> None:
        found = self._sets.get(key)
        if found is None:
            return
        plan = rules.plan_stateful_set(found, self._pods(found), claims=self._claims(found))
        if plan is None:
            return
        for body in plan.claims:
            await calls.create(self._client, CLAIMS, body)
        for body in plan.pods:
            await self._create_pod(found, body)
        for pod in plan.delete:
            await self._delete_pod(found, pod)
        await patch_status(self._client, STATEFUL_SETS, found, old=found.status, new=plan.status)

    def _claims(self, found: StatefulSet) -> set[str]:
        """Which of the set's claims exist. Asked by name: a namespace may hold thousands."""
        first = found.spec.ordinals.start
        numbers = range(first, first + found.spec.replicas)
        names = {
            rules.claim_name(template, found, number) for template in found.spec.volume_claim_templates for number in numbers
        }
        return {name for name in names if self._storage.claims.get(Key(found.metadata.namespace, name))}


def stateful_set_controller(wiring: Wiring, storage: StorageLookup, recorder: Recorder) -> Controller[Key]:
    sets = wiring.cache(STATEFUL_SETS)
    made = StatefulSetController(wiring.client, storage, recorder, sets=sets)
    sources: list[Source[Any, Key]] = [own(sets), owned(storage.pods, by=STATEFUL_SETS)]
    return Controller("statefulsets", sources, made.reconcile, metrics=wiring.metrics)

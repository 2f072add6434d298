"""KubeVirt objects: their status says which version of KubeVirt the world plays."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, own
from ullage.kube.errors import NotFound
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.vms.api.kubevirts import KUBEVIRTS, KubeVirt, KubeVirtStatus
from ullage.vms.pricing import AUTO, SEED

PLAYED: Final = "v1.6.0"  # where nothing else is chosen
DEPLOYED: Final = "Deployed"


def status_of(found: KubeVirtStatus, chosen: str) -> KubeVirtStatus:
    """`chosen`: the version to play; with `auto` a version that the status has already stays. The formula of the design is that
    of no version, and then none is written."""
    version = {AUTO: found.observed_version or PLAYED, SEED: found.observed_version}.get(chosen, chosen)
    return replace(found, phase=DEPLOYED, observed_version=version)


class KubeVirtController:
    def __init__(self, client: Client, kubevirts: Cache[KubeVirt], *, version: str) -> None:
        self._client = client
        self._kubevirts = kubevirts
        self._version = version

    async def reconcile(self, key: Key) -> None:
        found = self._kubevirts.get(key)
        if found is None or is_deleting(found.metadata):
            return
        try:
            new = status_of(found.status, self._version)
            await patch_status(self._client, KUBEVIRTS, found, old=found.status, new=new)
        except NotFound:  # it went meanwhile
            return


def kubevirt_controller(wiring: Wiring, *, version: str) -> Controller[Key]:
    kubevirts = wiring.cache(KUBEVIRTS)
    made = KubeVirtController(wiring.client, kubevirts, version=version)
    return Controller("kubevirts", [own(kubevirts)], made.reconcile, clock=wiring.clock, metrics=wiring.metrics)

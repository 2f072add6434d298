"""What Jobs and StatefulSets have in common: they create and delete pods, and write down what became of them."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.builtin.core import PODS, Pod
from ullage.kube.client.client import Client
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.objects import Json
from ullage.standalone.world import calls
from ullage.standalone.world.lookup import BY_CONTROLLER, StorageLookup

CREATED: Final = Reason("SuccessfulCreate", action="Create")
DELETED: Final = Reason("SuccessfulDelete", action="Delete")


class PodOwner:
    """The pods of one kind of owner."""

    def __init__(self, kind: Kind[Any], client: Client, storage: StorageLookup, recorder: Recorder) -> None:
        self._kind = kind
        self._client = client
        self._storage = storage
        self._recorder = recorder

    def _pods(self, owner: Object) -> list[Pod]:
        return self._storage.pods.by(BY_CONTROLLER, owner.metadata.uid)

    async def _create_pod(self, owner: Object, body: Json) -> None:
        if await calls.create(self._client, PODS, body):
            self._recorder.record(self._kind, owner, CREATED, note=f"Created pod: {body['metadata']['name']}")

    async def _delete_pod(self, owner: Object, pod: Pod) -> None:
        await calls.delete(self._client, PODS, pod.metadata)
        self._recorder.record(self._kind, owner, DELETED, note=f"Deleted pod: {pod.metadata.name}")

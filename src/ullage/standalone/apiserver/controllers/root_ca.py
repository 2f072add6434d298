"""Every namespace is told whose certificates the API server serves with: the ConfigMap `kube-root-ca.crt`.

Whatever runs in a namespace mounts it to verify the server. So it comes with the namespace, and comes back when somebody
changes or deletes it.
"""

from __future__ import annotations

from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.handlers.calls import Call
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.resources import Registry
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.entries import Event
from ullage.standalone.apiserver.storage.store import Store

NAME = "kube-root-ca.crt"
NAMESPACES = "namespaces"
CONFIG_MAPS = "configmaps"
MANAGER = "root-ca-certificate-publisher-controller"
CONTROLLER = User("system:serviceaccount:kube-system:root-ca-cert-publisher", groups=(MASTERS,))
DESCRIPTION = "kubernetes.io/description"
TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal "
    "service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)
_OPTIONS = internal(MANAGER)


class RootCaPublisher:
    """The controller. `certificate` is the authority's, in PEM."""

    def __init__(self, store: Store, *, registry: Registry, writer: Writer, certificate: bytes) -> None:
        self._store = store
        self._resource = registry.need("", "v1", CONFIG_MAPS)
        self._writer = writer
        self._data = {"ca.crt": certificate.decode()}
        self.queue: WorkQueue[str] = WorkQueue(self._process, name=MANAGER, workers=4)
        store.listeners.append(self._on_event)
        for entry in store.items(NAMESPACES):
            self.queue.add(entry.key[1])

    def _on_event(self, storage: str, event: Event) -> None:
        if storage == NAMESPACES and event.type != "DELETED":
            self.queue.add(event.key[1])
        elif storage == CONFIG_MAPS and event.key[1] == NAME and event.type != "ADDED":
            self.queue.add(event.key[0])

    async def _process(self, namespace: str) -> None:
        found = self._store.get(NAMESPACES, "", namespace)
        if found is None or found.obj()["metadata"].get("deletionTimestamp"):
            return
        entry = self._store.get(CONFIG_MAPS, namespace, NAME)
        try:
            if entry is None:
                await self._create(namespace)
            elif not self._is_right(entry.obj()):
                await self._mend(namespace)
        except ApiError as error:
            # The namespace went meanwhile, or somebody was quicker; or it is immutable, and only a delete can help.
            if error.code not in (403, 404, 409, 422):
                raise

    async def _create(self, namespace: str) -> None:
        obj: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace, "annotations": {DESCRIPTION: TEXT}},
            "data": self._data,
        }
        await self._writer.insert(self._resource, obj, Call(CONTROLLER, _OPTIONS, "CreateOptions"), namespace=namespace)

    def _is_right(self, obj: Json) -> bool:
        return obj.get("data") == self._data and bool((obj["metadata"].get("annotations") or {}).get(DESCRIPTION))

    async def _mend(self, namespace: str) -> None:
        def change(live: Json) -> Json:
            annotations = {**(live["metadata"].get("annotations") or {}), DESCRIPTION: TEXT}
            return {**live, "metadata": {**live["metadata"], "annotations": annotations}, "data": self._data}

        call = Call(CONTROLLER, _OPTIONS, "UpdateOptions")
        await self._writer.modify(self._resource, change, call, namespace=namespace, name=NAME)

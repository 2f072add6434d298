"""Aggregated ClusterRoles show what they gather.

The authorizer needs none of this: it gathers by itself. But people read roles, and tools copy them; so the rules that an
aggregated role stands for are written into it, by apply, whenever a ClusterRole comes, changes or goes.
"""

from __future__ import annotations

from ullage.standalone.apiserver.auth.rbac import GROUP, aggregate
from ullage.standalone.apiserver.auth.users import MASTERS, User
from ullage.standalone.apiserver.controllers.workqueue import WorkQueue
from ullage.standalone.apiserver.fields.apply.merge import apply
from ullage.standalone.apiserver.handlers.calls import Call, Source
from ullage.standalone.apiserver.handlers.endpoints import reset_fields
from ullage.standalone.apiserver.handlers.writes import Writer
from ullage.standalone.apiserver.kinds.resources import Registry, shape_of
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.write_options import internal
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.entries import Event
from ullage.standalone.apiserver.storage.store import Store
from ullage.times import timestamp

PLURAL = "clusterroles"
STORAGE = f"{PLURAL}.{GROUP}"
MANAGER = "clusterrole-aggregation-controller"
CONTROLLER = User(f"system:serviceaccount:kube-system:{MANAGER}", groups=(MASTERS,))
_OPTIONS = internal(MANAGER, force=True)


class RoleAggregation:
    """The controller. Roles are few and depend on each other, so one look covers them all."""

    def __init__(self, store: Store, *, registry: Registry, writer: Writer, source: Source) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._source = source
        self.queue: WorkQueue[str] = WorkQueue(self._process, name=MANAGER)
        store.listeners.append(self._on_event)
        self.queue.add(STORAGE)

    def _on_event(self, storage: str, event: Event) -> None:
        if storage == STORAGE:
            self.queue.add(STORAGE)

    async def _process(self, _: str) -> None:
        roles = {entry.key[1]: entry.obj() for entry in self._store.items(STORAGE)}
        failure: ApiError | None = None
        for name, rules in aggregate(roles.values()).items():
            if rules != (roles[name].get("rules") or []) and not _is_foreign(rules, roles[name]):
                try:
                    await self._write(name, rules)
                except ApiError as error:  # one role that gathers more than an object holds must not keep the others waiting
                    failure = error
        if failure is not None:
            raise failure

    async def _write(self, name: str, rules: list[Json]) -> None:
        resource = self._registry.need(GROUP, "v1", PLURAL)
        config: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        if rules:
            config["rules"] = rules

        def change(live: Json) -> Json:
            return apply(
                live,
                config,
                manager=MANAGER,
                force=True,
                shape=shape_of(resource),
                time=timestamp(self._source.now()),
                subresource="",
                api_version=resource.api_version,
                reset=reset_fields(resource, ""),
            )

        call = Call(CONTROLLER, _OPTIONS, "PatchOptions", tracked=True)
        try:
            await self._writer.modify(resource, change, call, namespace="", name=name)
        except ApiError as error:
            if error.code != 404:
                raise


def _is_foreign(rules: list[Json], role: Json) -> bool:
    """Rules that somebody else wrote stay until there is something to gather: an empty apply takes only what is its own."""
    return not rules and not any(entry.get("manager") == MANAGER for entry in role["metadata"].get("managedFields") or ())

"""What differs between kinds while they are written and deleted: strategy, what is given out once, what holds an object."""

from __future__ import annotations

from dataclasses import replace

from ullage.standalone.apiserver.crd.strategy import CRD_STRATEGY, mark_terminating
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.service_addresses import SERVICES, ServiceAddresses
from ullage.standalone.apiserver.kinds.strategies import GENERIC, strategy
from ullage.standalone.apiserver.kinds.strategies.base import Strategy
from ullage.standalone.apiserver.objects import Json, dig

APIEXTENSIONS = "apiextensions.k8s.io"
_CUSTOM = replace(GENERIC, generation=True, unstored_status=False)
_CUSTOM_WITH_STATUS = replace(GENERIC, generation=True, unstored_status=True)


class KindRules:
    def __init__(self, addresses: ServiceAddresses) -> None:
        self._addresses = addresses

    def strategy(self, resource: Resource) -> Strategy:
        if resource.custom is not None:
            return _CUSTOM_WITH_STATUS if resource.has("status") else _CUSTOM
        if resource.group == APIEXTENSIONS:
            return CRD_STRATEGY
        return strategy(resource.group, resource.kind)

    def allocate(self, resource: Resource, obj: Json) -> None:
        """What is given out once in a cluster: an object gets it when its content is settled, and before it is validated."""
        if resource.storage == SERVICES:
            self._addresses.allocate(obj)

    def begin_delete(self, resource: Resource, obj: Json, now: str) -> None:
        """What a delete leaves on an object beside its deletion time, if the kind has something to do first."""
        if resource.group == APIEXTENSIONS and not obj["metadata"].get("deletionTimestamp"):
            mark_terminating(obj, now)

    def released(self, resource: Resource, obj: Json) -> bool:
        """Whether nothing holds an object that is being deleted."""
        meta = obj["metadata"]
        if meta.get("finalizers"):
            return False
        if resource.group_resource == "namespaces":
            return not dig(obj, "spec", "finalizers")
        if resource.group_resource == "pods" and meta.get("deletionTimestamp"):
            return not meta.get("deletionGracePeriodSeconds")
        return True

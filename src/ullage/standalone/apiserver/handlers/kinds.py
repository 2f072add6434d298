"""What differs between kinds on the write path, gathered behind one face.

Most kinds differ by data alone (their `Strategy`); the few that need the store, the policy or another object do so here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.builtin import admit as admit_builtin
from ullage.standalone.apiserver.admission.builtin import judge
from ullage.standalone.apiserver.auth import signing_requests
from ullage.standalone.apiserver.auth.escalation import Escalation
from ullage.standalone.apiserver.auth.rbac import GROUP as RBAC
from ullage.standalone.apiserver.crd.strategy import CRD_STRATEGY, mark_terminating
from ullage.standalone.apiserver.kinds.resources import Resource, dig
from ullage.standalone.apiserver.kinds.service_addresses import SERVICES, ServiceAddresses
from ullage.standalone.apiserver.kinds.strategies import GENERIC, strategy
from ullage.standalone.apiserver.kinds.strategies.base import Strategy
from ullage.standalone.apiserver.status import Json, forbidden
from ullage.standalone.apiserver.storage.store import Store

APIEXTENSIONS = "apiextensions.k8s.io"
DEFINITIONS = f"customresourcedefinitions.{APIEXTENSIONS}"
_CUSTOM = replace(GENERIC, generation=True, unstored_status=False)
_CUSTOM_WITH_STATUS = replace(GENERIC, generation=True, unstored_status=True)


class Kinds:
    def __init__(
        self, store: Store, escalation: Escalation, addresses: ServiceAddresses, signing: signing_requests.SigningRequests
    ) -> None:
        self._store = store
        self._signing = signing
        self._escalation = escalation
        self._addresses = addresses

    def strategy(self, resource: Resource) -> Strategy:
        if resource.custom is not None:
            return _CUSTOM_WITH_STATUS if resource.has("status") else _CUSTOM
        if resource.group == APIEXTENSIONS:
            return CRD_STRATEGY
        return strategy(resource.group, resource.kind)

    def admit(self, attrs: Attributes) -> None:
        """The API server's own admission: it may refuse, and may fill in the object."""
        if attrs.resource.custom is not None and attrs.operation == "CREATE":
            self._check_living(attrs)
        self._identify(attrs)
        admit_builtin(attrs, self._store)

    def _identify(self, attrs: Attributes) -> None:
        """Who asks for a certificate is the server's to say."""
        if attrs.resource.group_resource == signing_requests.RESOURCE and attrs.operation == "CREATE" and attrs.object:
            signing_requests.identify(attrs.object, attrs.user)

    def _check_living(self, attrs: Attributes) -> None:
        """Nothing comes into being of a kind that is going."""
        resource = attrs.resource
        definition = self._store.get(DEFINITIONS, "", resource.group_resource)
        if definition is None or b'"deletionTimestamp"' not in definition.data:  # nearly always
            return
        if dig(definition.obj(), "metadata", "deletionTimestamp"):
            text = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.group, resource.plural, attrs.name, text)

    def allocate(self, resource: Resource, obj: Json) -> None:
        """What is given out once in a cluster: an object gets it when its content is settled, and before it is validated."""
        if resource.storage == SERVICES:
            self._addresses.allocate(obj)

    def guard(self, attrs: Attributes) -> None:
        """The last word before the validating webhooks: nobody hands out rights that they do not have."""
        judge(attrs, self._store)
        if attrs.object is None:
            return
        if attrs.resource.group_resource == signing_requests.RESOURCE:
            self._identify(attrs)  # once more: webhooks have had their say
            refusal = self._signing.check(attrs.user, attrs.subresource, new=attrs.object, old=attrs.old)
            if refusal is not None:
                raise refusal
        if attrs.resource.group != RBAC:
            return
        refusal = self._escalation.check(
            attrs.user, attrs.resource.plural, new=attrs.object, old=attrs.old, namespace=attrs.namespace
        )
        if refusal is not None:
            raise refusal

    def endpoint(self, resource: Resource, subresource: str, new: Json, live: Json) -> Json:
        """What of a new version an endpoint may write: the main one no status, `status` nothing else."""
        rule = _ENDPOINTS.get(subresource, _main_only)
        return rule(resource, new, live)

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


def _main_only(resource: Resource, new: Json, live: Json) -> Json:
    if resource.group_resource == signing_requests.RESOURCE:  # what was asked for, and by whom, is settled
        new = {**new, "spec": live.get("spec", {})}
    if not resource.has("status"):
        return new
    if "status" in live:
        return {**new, "status": live["status"]}
    return {key: value for key, value in new.items() if key != "status"}


def _status_only(resource: Resource, new: Json, live: Json) -> Json:
    found = {**live, "metadata": _status_metadata(resource, new, live)}
    found.pop("status", None)
    if "status" in new:
        found["status"] = new["status"]
    if resource.group_resource == signing_requests.RESOURCE:
        asked, held = new.get("status") or {}, live.get("status") or {}
        found["status"] = signing_requests.keep_decisions(asked, held, name=live["metadata"]["name"])
    return found


def _status_metadata(resource: Resource, new: Json, live: Json) -> Json:
    """Built-in kinds let a status update touch labels, annotations and finalizers; custom ones do not."""
    keys = ("managedFields", "labels", "annotations", "finalizers") if resource.custom is None else ("managedFields",)
    kept = {key: value for key, value in live["metadata"].items() if key not in keys}
    return kept | {key: new["metadata"][key] for key in keys if key in new["metadata"]}


def _finalizers_only(resource: Resource, new: Json, live: Json) -> Json:
    spec = {**live.get("spec", {}), "finalizers": dig(new, "spec", "finalizers") or []}
    return {**live, "spec": spec}


def _approval(resource: Resource, new: Json, live: Json) -> Json:
    conditions = dig(new, "status", "conditions") or []
    meta = _status_metadata(resource, new, live)
    return {**live, "metadata": meta, "status": {**live.get("status", {}), "conditions": conditions}}


def _ephemeral_containers(resource: Resource, new: Json, live: Json) -> Json:
    spec = {key: value for key, value in live.get("spec", {}).items() if key != "ephemeralContainers"}
    if added := dig(new, "spec", "ephemeralContainers"):
        spec["ephemeralContainers"] = added
    return {**_with_fields(new, live), "spec": spec}


def _resources(resource: Resource, new: Json, live: Json) -> Json:
    """What the endpoint `resize` may write: the resources of containers. Others than those that are there are refused later."""
    spec = dict(live.get("spec", {}))
    for name in ("containers", "initContainers"):
        wanted, held = dig(new, "spec", name) or [], spec.get(name) or []
        if [one.get("name") for one in wanted] != [one.get("name") for one in held]:
            return {**_with_fields(new, live), "spec": {**spec, name: wanted}}
        if held:
            spec[name] = [_resized(old, one) for old, one in zip(held, wanted, strict=True)]
    return {**_with_fields(new, live), "spec": spec}


def _resized(container: Json, wanted: Json) -> Json:
    kept = {key: value for key, value in container.items() if key not in ("resources", "resizePolicy")}
    return kept | {key: wanted[key] for key in ("resources", "resizePolicy") if key in wanted}


def _with_fields(new: Json, live: Json) -> Json:
    """The live object, with who owns its fields from now on."""
    meta = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    if "managedFields" in new["metadata"]:
        meta["managedFields"] = new["metadata"]["managedFields"]
    return {**live, "metadata": meta}


_ENDPOINTS: dict[str, Callable[[Resource, Json, Json], Json]] = {
    "": _main_only,
    "scale": _main_only,
    "status": _status_only,
    "finalize": _finalizers_only,
    "approval": _approval,
    "ephemeralcontainers": _ephemeral_containers,
    "resize": _resources,
}

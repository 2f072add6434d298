"""Reads the instance type and the preference of a VM, as KubeVirt finds them: a revision that the VM names, the revision that
KubeVirt took when it first saw the VM, else the object itself.

The API is asked each time, and only about VMs that name either: at most two objects for each request. Nothing is cached, so an
instance type that has just been changed counts as it is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from ullage.errors import BadInput, NotNow
from ullage.kube.builtin.apps import CONTROLLER_REVISIONS, ControllerRevision
from ullage.kube.client.interface import Finder
from ullage.kube.errors import Forbidden, NotFound, Undecodable
from ullage.kube.kinds import Kind, Value, without_nulls
from ullage.kube.objects import Json
from ullage.vms.api.instance_types import (
    CLUSTER_INSTANCE_TYPES,
    CLUSTER_PREFERENCES,
    INSTANCE_TYPES,
    PREFERENCES,
    InstanceTypeSpec,
    PreferenceSpec,
)
from ullage.vms.api.machines import MatchedReference, Matcher, VirtualMachine
from ullage.vms.instance_types.expansion import INSTANCE_TYPE, PREFERENCE, expanded

S = TypeVar("S", bound=Value)

NAME_LABEL: Final = "instancetype.kubevirt.io/object-name"  # of a revision: the name of what it is a copy of
READ: Final[tuple[Kind[Any], ...]] = (
    INSTANCE_TYPES,
    CLUSTER_INSTANCE_TYPES,
    PREFERENCES,
    CLUSTER_PREFERENCES,
    CONTROLLER_REVISIONS,
)


@dataclass(frozen=True, slots=True)
class Sort(Generic[S]):
    """Instance types or preferences: where a VM names them, and the kinds that it may name."""

    field: str
    spec: type[S]
    namespaced: Kind[Any]
    clustered: Kind[Any]

    def kind(self, matcher: Matcher) -> Kind[Any]:
        """The kind that a VM names, in the singular or the plural; that of the cluster where nothing is said."""
        name = matcher.kind.lower()
        for kind in (self.namespaced, self.clustered):
            if name in (kind.kind.lower(), kind.plural):
                return kind
        if name:
            known = f"{self.namespaced.kind} or {self.clustered.kind} is allowed"
            raise BadInput(f"{self.field}.kind", repr(matcher.kind[:80]), known)
        return self.clustered


FOR_TYPES: Final = Sort(INSTANCE_TYPE, InstanceTypeSpec, INSTANCE_TYPES, CLUSTER_INSTANCE_TYPES)
FOR_PREFERENCES: Final = Sort(PREFERENCE, PreferenceSpec, PREFERENCES, CLUSTER_PREFERENCES)


class Missing(BadInput):
    """What a VM names does not exist, so KubeVirt does not start the VM."""


async def with_instance_type(client: Finder, machine: VirtualMachine, body: Mapping[str, Any], *, namespace: str) -> Json:
    """The body of a VM, with a template that has what its instance type and its preference give it. Raises BadInput where
    those cannot be, and Missing where one does not exist."""
    spec, status = machine.spec, machine.status
    if spec.instancetype is None and spec.preference is None:
        return dict(body)
    kind, preference = await asyncio.gather(
        _find(client, FOR_TYPES, spec.instancetype, status.instancetype_ref, namespace),
        _find(client, FOR_PREFERENCES, spec.preference, status.preference_ref, namespace),
    )
    return expanded(body, kind, preference)


async def _find(
    client: Finder, sort: Sort[S], matcher: Matcher | None, held: MatchedReference | None, namespace: str
) -> S | None:
    if matcher is None:
        return None
    if matcher.infer_from_volume and not matcher.name:
        where, problem = f"{sort.field}.inferFromVolume", "KubeVirt has not put the name that it infers in its place"
        raise Missing(where, matcher.infer_from_volume, f"{problem}. Next: set {sort.field}.name")
    if not (matcher.name or matcher.revision_name):
        raise BadInput(f"{sort.field}.name", "(empty)", "a name is needed here")
    try:
        revision = await _revision(client, sort, matcher, held, namespace)
        if revision is not None:
            return _kept(sort, revision)
        kind = sort.kind(matcher)
        found = await client.find(kind, matcher.name, namespace if kind.namespaced else "")
    except NotFound as error:
        problem = "this cluster does not serve the kind: is it a KubeVirt of v1.0 or later?"
        raise Missing(sort.field, f"{matcher.kind or sort.clustered.kind} {matcher.name}", problem) from error
    except Forbidden as error:
        text = f"{sort.field} {matcher.name}: Ullage may not read it ({error}). Next: ullage install"
        raise NotNow(text) from error
    except Undecodable as error:
        raise BadInput(sort.field, matcher.name, f"it cannot be read: {error}") from error
    if found is None:
        raise Missing(sort.field, f"{kind.kind} {matcher.name}", f"it does not exist. Next: {_listing(kind, namespace)}")
    spec: S = found.spec
    return spec


async def _revision(
    client: Finder, sort: Sort[Any], matcher: Matcher, held: MatchedReference | None, namespace: str
) -> ControllerRevision | None:
    """None: no revision holds."""
    if matcher.revision_name:
        found = await client.find(CONTROLLER_REVISIONS, matcher.revision_name, namespace)
        if found is None:
            where = f"{sort.field}.revisionName"
            problem = f"there is no such ControllerRevision in namespace {namespace}"
            raise Missing(where, matcher.revision_name, f"{problem}. Next: kubectl get controllerrevisions -n {namespace}")
        return found
    taken = held.controller_revision_ref if held is not None else None
    if held is None or taken is None or not taken.name:
        return None
    if held.name != matcher.name or (matcher.kind and matcher.kind != held.kind):
        return None  # of an earlier one: KubeVirt takes another revision before it starts the VM again
    found = await client.find(CONTROLLER_REVISIONS, taken.name, namespace)
    if found is None or found.metadata.labels.get(NAME_LABEL) != matcher.name:
        return None
    return found


def _kept(sort: Sort[S], revision: ControllerRevision) -> S:
    """What a revision has a copy of. KubeVirt v0.5x kept the spec alone, in base64."""
    where, name = f"{sort.field}.revisionName", revision.metadata.name
    spec, kind = revision.data.get("spec"), revision.data.get("kind")
    if kind not in (None, sort.namespaced.kind, sort.clustered.kind):
        raise BadInput(where, name, f"the revision has a {kind}")
    try:
        if kind is None and isinstance(spec, str):
            spec = msgspec.json.decode(base64.b64decode(spec, validate=True))
        if not isinstance(spec, dict):
            raise BadInput(where, name, "the revision has no spec")
        return msgspec.convert(without_nulls(spec), sort.spec)
    except (msgspec.DecodeError, binascii.Error, RecursionError, ValueError) as error:
        raise BadInput(where, name, f"the revision cannot be read: {error}") from error


def _listing(kind: Kind[Any], namespace: str) -> str:
    return f"kubectl get {kind.plural}{f' -n {namespace}' if kind.namespaced else ''}"

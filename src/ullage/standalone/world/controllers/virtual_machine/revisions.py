"""Keeps a copy of the instance type and of the preference that a VM was first seen with, as KubeVirt does.

The copy is a ControllerRevision that the VM owns, and its name stands in the VM's status. From then on the copy holds: an
instance type that is edited changes no VM that was there before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.kube.builtin.apps import CONTROLLER_REVISIONS
from ullage.kube.client.client import Client
from ullage.kube.objects import Json, owner_reference
from ullage.standalone.world import calls
from ullage.vms.api.instance_types import GROUP, VERSION
from ullage.vms.api.machines import MACHINES, MachineStatus, MatchedReference, Matcher, RevisionReference, VirtualMachine
from ullage.vms.instance_types.reader import FOR_PREFERENCES, FOR_TYPES, NAME_LABEL, Sort


async def with_revisions(client: Client, machine: VirtualMachine) -> MachineStatus:
    """The status of a VM, with the copies of what the VM names, which are there by then. Raises BadInput and NotFound where
    there is nothing to copy."""
    spec, status = machine.spec, machine.status
    return msgspec.structs.replace(
        status,
        instancetype_ref=await _kept(client, machine, FOR_TYPES, spec.instancetype, status.instancetype_ref),
        preference_ref=await _kept(client, machine, FOR_PREFERENCES, spec.preference, status.preference_ref),
    )


async def _kept(
    client: Client, machine: VirtualMachine, sort: Sort[Any], matcher: Matcher | None, held: MatchedReference | None
) -> MatchedReference | None:
    if matcher is None or not matcher.name:
        return None
    if matcher.revision_name:
        return _reference(matcher, matcher.revision_name)
    if held is not None and (held.name, held.kind) == (matcher.name, matcher.kind) and held.controller_revision_ref is not None:
        return held
    kind = sort.kind(matcher)
    body = await calls.read(client, kind, matcher.name, machine.metadata.namespace if kind.namespaced else "")
    copy = revision_of(machine, body)
    await calls.create(client, CONTROLLER_REVISIONS, copy)
    return _reference(matcher, copy["metadata"]["name"])


def revision_of(machine: VirtualMachine, body: Json) -> Json:
    """A copy of an instance type or of a preference, given whole."""
    meta, owner = body["metadata"], machine.metadata
    labels = {
        NAME_LABEL: meta["name"],
        f"{GROUP}/object-generation": str(meta.get("generation", 0)),
        f"{GROUP}/object-kind": body["kind"],
        f"{GROUP}/object-uid": meta["uid"],
        f"{GROUP}/object-version": VERSION,
    }
    kept = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "generation") if key in meta}
    name = f"{owner.name}-{meta['name']}-{VERSION}-{meta['uid']}-{meta.get('generation', 0)}"
    owners = [msgspec.to_builtins(owner_reference(MACHINES, owner, controller=True))]
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {"name": name, "namespace": owner.namespace, "labels": labels, "ownerReferences": owners},
        "data": {**body, "metadata": kept},
        "revision": 0,
    }


def _reference(matcher: Matcher, revision: str) -> MatchedReference:
    return MatchedReference(name=matcher.name, kind=matcher.kind, controller_revision_ref=RevisionReference(name=revision))

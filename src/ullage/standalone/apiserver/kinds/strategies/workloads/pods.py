"""Pods: what may change in one that exists."""

from __future__ import annotations

import json

from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    changes,
    collect,
    collect_update,
    items,
    part,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_checks import spec_faults, template_faults
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_defaults import (
    create_pod,
    default_pod,
    default_template,
    tolerate_bad_nodes,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import forbidden_field

MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _update(new: Json, old: Json) -> None:
    """What admission added once it adds again: a client that sends the pod without it changes nothing."""
    spec, before = spec_of(new), part(old, "spec")
    tolerate_bad_nodes(spec)
    for key in ("priority", "preemptionPolicy"):
        if key not in spec and key in before:
            spec[key] = before[key]


def _faults(obj: Json) -> Faults:
    yield from spec_faults(part(obj, "spec"), "spec")


def _update_faults(new: Json, old: Json) -> Faults:
    after, before = part(new, "spec"), part(old, "spec")
    resized = [name for name in ("containers", "initContainers") if len(items(after, name)) != len(items(before, name))]
    if resized:
        what = {"containers": "containers", "initContainers": "init containers"}
        yield from (forbidden_field(f"spec.{name}", f"pod updates may not add or remove {what[name]}") for name in resized)
        return
    was, now = _fixed(before, after), _fixed(after, after)
    if was != now:
        yield forbidden_field("spec", f"{MUTABLE}\n{changes(was, now)}")


def _fixed(spec: Json, after: Json) -> Json:
    """A spec with all that may change taken from the newer one, so that the rest can be compared."""
    found = {key: value for key, value in spec.items() if key not in ("activeDeadlineSeconds", "schedulingGates")}
    for name in ("containers", "initContainers"):
        if name in found:
            found[name] = [
                {**mine, "image": newer.get("image")} for mine, newer in zip(items(spec, name), items(after, name), strict=True)
            ]
    if _texts(spec, "tolerations") <= _texts(after, "tolerations"):
        found["tolerations"] = items(after, "tolerations")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        found["terminationGracePeriodSeconds"] = 1
    plain: Json = json.loads(json.dumps(found, sort_keys=True))
    return {key: value for key, value in plain.items() if value not in (None, "", [], False)}


def _texts(spec: Json, name: str) -> set[str]:
    """A list's items as texts that can be looked up: a pod may have thousands."""
    return {json.dumps(item, sort_keys=True) for item in items(spec, name)}


def _template_default(obj: Json) -> None:
    template = obj.get("template")
    if not isinstance(template, dict):
        template = obj["template"] = {}
    default_template(template)


STRATEGIES = {
    ("", "Pod"): Strategy(
        generation=True,
        unstored_status=True,
        default=default_pod,
        prepare_create=create_pod,
        prepare_update=_update,
        validate=collect(_faults),
        validate_update=collect_update(_update_faults),
    ),
    ("", "PodTemplate"): Strategy(
        generation=True,
        default=_template_default,
        validate=collect(lambda obj: template_faults(part(obj, "template"), "template")),
    ),
}

"""The kinds that keep pods running: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.selectors import LabelSelector, SelectorError
from ullage.standalone.apiserver.kinds import metadata
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    at_least,
    collect,
    collect_update,
    fill,
    go_names,
    immutable,
    in_order,
    int_or_percent,
    items,
    label_selector,
    one_of,
    part,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.storage.claims import claim_spec_faults, default_claim_spec
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_checks import restart_faults, template_faults
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_defaults import default_template
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import forbidden_field, invalid_value, not_supported, required

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
MISMATCH = "`selector` does not match template `labels`"
STATEFUL_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy"),
    "minReadySeconds",
)
STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
APPS = "apps"


def _spec_with_template(obj: Json, defaults: Mapping[str, Any]) -> Json:
    spec = spec_of(obj)
    fill(spec, defaults)
    if not isinstance(template := spec.get("template"), dict):
        template = spec["template"] = {}
    default_template(template)
    return spec


def _deployment_default(obj: Json) -> None:
    counts = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    spec = _spec_with_template(obj, {**counts, "strategy": {"type": "RollingUpdate"}})
    if spec["strategy"]["type"] == "RollingUpdate":
        fill(spec["strategy"], {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})


def _stateful_default(obj: Json) -> None:
    spec = _spec_with_template(
        obj,
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    )
    if spec.get("serviceName") is None:
        spec["serviceName"] = ""
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        fill(spec["updateStrategy"], {"rollingUpdate": {"partition": 0}})
    for claim in items(spec, "volumeClaimTemplates"):
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}})
        default_claim_spec(spec_of(claim))


def _daemon_default(obj: Json) -> None:
    spec = _spec_with_template(obj, {"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate"}})
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        fill(spec["updateStrategy"], {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})


def _daemon_create(obj: Json) -> None:
    obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    fill(obj, {"status": dict.fromkeys(counts, 0)})


def _daemon_update(new: Json, old: Json) -> None:
    """The server counts templates in an annotation that only it writes."""
    count = part(old, "metadata", "annotations").get(TEMPLATE_GENERATION, "1")
    if part(new, "spec", "template") != part(old, "spec", "template") and count.isascii() and count.isdigit():
        count = str(int(count) + 1)
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = count


def _replicated_default(obj: Json) -> None:
    _spec_with_template(obj, {"replicas": 1})


def _controller_default(obj: Json) -> None:
    """The oldest of these kinds takes its selector and labels from its pods."""
    spec = spec_of(obj)
    fill(spec, {"replicas": 1})
    if isinstance(spec.get("template"), dict):
        default_template(spec["template"])
    if labels := part(spec, "template", "metadata").get("labels"):
        fill(spec, {"selector": {}})
        if not spec["selector"]:
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def selection_faults(spec: Json, kind: str, *, needed: bool = True) -> Faults:
    """The selector must be there, readable, and find the pods of the template."""
    selector = spec.get("selector")
    if selector is None:
        if needed:
            yield required("spec.selector")
    else:
        yield from label_selector("spec.selector", selector)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}")
            return
    try:
        parsed = LabelSelector.of(selector)
    except SelectorError:
        yield invalid_value("spec.selector", selector, "invalid label selector")
        return
    labels = part(spec, "template", "metadata").get("labels")
    if not parsed.matches(labels):
        yield invalid_value("spec.template.metadata.labels", in_order(labels), MISMATCH)


def _common(spec: Json, kind: str, *, needed: bool = True) -> Faults:
    yield from selection_faults(spec, kind, needed=needed)
    template = part(spec, "template")
    yield from template_faults(template, "spec.template")
    yield from restart_faults(template, "spec.template")
    if part(template, "spec").get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", detail)
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        yield from at_least(f"spec.{field}", spec.get(field))


def _deployment_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    yield from _common(spec, "deployment")
    yield from _deployment_strategy(part(spec, "strategy"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _deployment_strategy(strategy: Json) -> Faults:
    path, rolling = "spec.strategy", strategy.get("rollingUpdate")
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        yield not_supported(path, _shown(strategy), ("Recreate", "RollingUpdate"))
    elif strategy["type"] == "Recreate":
        if rolling is not None:
            yield forbidden_field(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif rolling is not None:
        for field in ("maxUnavailable", "maxSurge"):
            yield from int_or_percent(f"{path}.rollingUpdate.{field}", rolling.get(field))
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            detail = "may not be 0 when `maxSurge` is 0"
            yield invalid_value(f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], detail)


def _shown(strategy: Json) -> Any:
    return go_names({"type": strategy.get("type", ""), "rollingUpdate": strategy.get("rollingUpdate")})


def _stateful_faults(obj: Json) -> Faults:
    spec, strategy = part(obj, "spec"), part(obj, "spec", "updateStrategy")
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        yield invalid_value("spec.podManagementPolicy", spec.get("podManagementPolicy"), "must be 'OrderedReady' or 'Parallel'")
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        yield invalid_value("spec.updateStrategy", _shown(strategy), "must be 'RollingUpdate' or 'OnDelete'")
    yield from at_least("spec.updateStrategy.rollingUpdate.partition", part(strategy, "rollingUpdate").get("partition"))
    for field in ("whenDeleted", "whenScaled"):
        policy = part(spec, "persistentVolumeClaimRetentionPolicy").get(field)
        yield from one_of(f"spec.persistentVolumeClaimRetentionPolicy.{field}", policy, ("Retain", "Delete"))
    for index, claim in enumerate(items(spec, "volumeClaimTemplates")):
        yield from claim_spec_faults(part(claim, "spec"), f"spec.volumeClaimTemplates[{index}].spec")
    yield from _common(_with_claims(spec), "statefulset")


def _with_claims(spec: Json) -> Json:
    """The template as its pods will be: each claim is a volume that containers may mount."""
    template = part(spec, "template")
    pod = part(template, "spec")
    claims = [part(claim, "metadata").get("name") for claim in items(spec, "volumeClaimTemplates")]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    claimed = frozenset(claims)
    mine = [volume for volume in items(pod, "volumes") if volume.get("name") not in claimed]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*volumes, *mine]}}}


def _stateful_update_faults(new: Json, old: Json) -> Faults:
    before, after = (
        {key: value for key, value in part(obj, "spec").items() if key not in STATEFUL_MUTABLE and value not in (None, [], "")}
        for obj in (old, new)
    )
    if before != after:
        yield forbidden_field("spec", STATEFUL_FIXED)


def _daemon_faults(obj: Json) -> Faults:
    spec, strategy = part(obj, "spec"), part(obj, "spec", "updateStrategy")
    yield from _common(spec, "daemonset", needed=False)
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        yield not_supported("spec.updateStrategy", _shown(strategy), ("RollingUpdate", "OnDelete"))
    rolling, path = strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate"
    for field in ("maxUnavailable", "maxSurge"):
        yield from int_or_percent(f"{path}.{field}", rolling.get(field))
    if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _controller_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    template, selector = part(spec, "template"), spec.get("selector")
    if not selector:
        yield required("spec.selector")
    if not template:
        yield required("spec.template")
        return
    if selector and not LabelSelector.of({"matchLabels": selector}).matches(part(template, "metadata").get("labels")):
        yield invalid_value("spec.template.metadata.labels", in_order(part(template, "metadata").get("labels")), MISMATCH)
    yield from template_faults(template, "spec.template")
    yield from restart_faults(template, "spec.template")
    for field in ("replicas", "minReadySeconds"):
        yield from at_least(f"spec.{field}", spec.get(field))


def _revision_faults(obj: Json) -> Faults:
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    yield from at_least("revision", obj.get("revision"))


def _counted(**status: Any) -> Any:
    return lambda obj: fill(obj, {"status": status})


_SELECTOR_FIXED = collect_update(immutable("spec.selector"))
STRATEGIES = {
    (APPS, "Deployment"): Strategy(
        generation=True,
        counted=("annotations",),
        unstored_status=True,
        default=_deployment_default,
        prepare_create=_counted(),
        validate=collect(_deployment_faults),
        validate_update=_SELECTOR_FIXED,
    ),
    (APPS, "StatefulSet"): Strategy(
        name_rule=metadata.label,
        generation=True,
        unstored_status=True,
        default=_stateful_default,
        prepare_create=_counted(replicas=0, availableReplicas=0),
        validate=collect(_stateful_faults),
        validate_update=collect_update(_stateful_update_faults),
    ),
    (APPS, "DaemonSet"): Strategy(
        generation=True,
        unstored_status=True,
        default=_daemon_default,
        prepare_create=_daemon_create,
        prepare_update=_daemon_update,
        validate=collect(_daemon_faults),
        validate_update=_SELECTOR_FIXED,
    ),
    (APPS, "ReplicaSet"): Strategy(
        generation=True,
        unstored_status=True,
        default=_replicated_default,
        prepare_create=_counted(replicas=0),
        validate=collect(lambda obj: _common(part(obj, "spec"), "replicaset")),
        validate_update=_SELECTOR_FIXED,
    ),
    ("", "ReplicationController"): Strategy(
        generation=True,
        unstored_status=True,
        default=_controller_default,
        prepare_create=_counted(replicas=0),
        validate=collect(_controller_faults),
    ),
    (APPS, "ControllerRevision"): Strategy(
        validate=collect(_revision_faults),
        validate_update=collect_update(immutable("data")),
    ),
}

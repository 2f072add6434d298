"""Columns of what runs pods: deployments and their kin, jobs, autoscalers, disruption budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import UNKNOWN, age, human, parse_time, since
from ullage.standalone.apiserver.tables.cells import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    UNSET,
    Printer,
    col,
    deleting,
    holds,
    many,
    name,
    number,
    pairs,
    selector,
    template_cells,
    text,
)


def deployment(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}",
        number(obj, "status", "updatedReplicas"),
        number(obj, "status", "availableReplicas"),
        age(obj, now),
        *template_cells(dig(obj, "spec", "template")),
        selector(dig(obj, "spec", "selector")),
    ]


def replicas(obj: Json, now: datetime) -> list[Any]:
    """ReplicaSets and ReplicationControllers differ only in the shape of their selector."""
    chosen = dig(obj, "spec", "selector")
    return [
        name(obj),
        number(obj, "spec", "replicas"),
        number(obj, "status", "replicas"),
        number(obj, "status", "readyReplicas"),
        age(obj, now),
        *template_cells(dig(obj, "spec", "template")),
        pairs(chosen) if obj.get("kind") == "ReplicationController" else selector(chosen),
    ]


def stateful_set(obj: Json, now: datetime) -> list[Any]:
    ready = f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"
    return [name(obj), ready, age(obj, now), *template_cells(dig(obj, "spec", "template"))]


DAEMON_COUNTS = {
    "Desired": "desiredNumberScheduled",
    "Current": "currentNumberScheduled",
    "Ready": "numberReady",
    "Up-to-date": "updatedNumberScheduled",
    "Available": "numberAvailable",
}


def daemon_set(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        *(number(obj, "status", field) for field in DAEMON_COUNTS.values()),
        pairs(dig(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *template_cells(dig(obj, "spec", "template")),
        selector(dig(obj, "spec", "selector")),
    ]


def controller_revision(obj: Json, now: datetime) -> list[Any]:
    owner = next((ref for ref in many(obj, "metadata", "ownerReferences") if ref.get("controller")), None)
    return [name(obj), f"{owner['kind'].lower()}/{owner['name']}" if owner else NONE, obj.get("revision", 0), age(obj, now)]


def job(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        _job_status(obj),
        _completions(obj),
        _duration(obj, now),
        age(obj, now),
        *template_cells(dig(obj, "spec", "template")),
        selector(dig(obj, "spec", "selector")),
    ]


def _job_status(obj: Json) -> str:
    for kind in ("Complete", "Failed"):
        if holds(obj, kind):
            return kind
    if deleting(obj):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if holds(obj, kind)), "Running")


def _completions(obj: Json) -> str:
    succeeded, wanted, parallel = (
        number(obj, "status", "succeeded"),
        dig(obj, "spec", "completions"),
        number(obj, "spec", "parallelism"),
    )
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _duration(obj: Json, now: datetime) -> str:
    start = parse_time(dig(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(dig(obj, "status", "completionTime")) or now
    return human((end - start).total_seconds())


def cron_job(obj: Json, now: datetime) -> list[Any]:
    last, template = dig(obj, "status", "lastScheduleTime"), dig(obj, "spec", "jobTemplate", "spec")
    return [
        name(obj),
        text(obj, "spec", "schedule"),
        text(obj, "spec", "timeZone", empty=NONE),
        str(bool(dig(obj, "spec", "suspend"))),
        len(many(obj, "status", "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *template_cells(dig(template, "template")),
        selector(dig(template, "selector")),
    ]


def pod_template(obj: Json, _now: datetime) -> list[Any]:
    return [name(obj), *template_cells(obj.get("template")), pairs(dig(obj, "template", "metadata", "labels"))]


def disruption_budget(obj: Json, now: datetime) -> list[Any]:
    return [
        name(obj),
        text(obj, "spec", "minAvailable", empty="N/A"),
        text(obj, "spec", "maxUnavailable", empty="N/A"),
        number(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def autoscaler(obj: Json, now: datetime) -> list[Any]:
    target = dig(obj, "spec", "scaleTargetRef")
    return [
        name(obj),
        f"{text(target, 'kind')}/{text(target, 'name')}",
        _targets(obj),
        text(obj, "spec", "minReplicas", empty=UNSET),
        number(obj, "spec", "maxReplicas"),
        number(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _targets(obj: Json) -> str:
    cpu = dig(obj, "spec", "targetCPUUtilizationPercentage")
    if cpu is not None:  # autoscaling/v1 knows only this one metric
        used = dig(obj, "status", "currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if used is None else f'{used}%'}/{cpu}%"
    specs, states = many(obj, "spec", "metrics"), many(obj, "status", "currentMetrics")
    shown = [_metric(spec, states[at] if at < len(states) else {}) for at, spec in enumerate(specs)]
    if not shown:
        return NONE
    return ", ".join(shown[:2]) + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "")


def _metric(spec: Json, state: Json) -> str:
    """One metric as `now/wanted`. Resources are named; per-pod averages of foreign metrics are marked."""
    kind = str(spec.get("type"))
    field = kind[:1].lower() + kind[1:]
    source, current = spec.get(field) or {}, dig(state, field, "current") or {}
    target = source.get("target") or {}
    label = f"{source.get('name')}: " if kind in ("Resource", "ContainerResource") else ""
    if "averageValue" in target:
        mark = " (avg)" if kind in ("Object", "External") else ""
        return f"{label}{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{mark}"
    if label:
        used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        return f"{label}{UNKNOWN if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value')}"


def _counted(kind: str) -> tuple[Any, ...]:
    return (
        NAME,
        col("Desired", f"{kind}Spec#replicas", type="integer"),
        col("Current", f"{kind}Status#replicas", type="integer"),
        col("Ready", f"{kind}Status#readyReplicas", type="integer"),
        AGE,
        CONTAINERS,
        IMAGES,
        col("Selector", f"{kind}Spec#selector", wide=True),
    )


READY = col("Ready", "How many of the wanted pods are ready")
SELECTOR = col("Selector", "batch.v1.JobSpec#selector", wide=True)
HPA = "autoscaling.v2.HorizontalPodAutoscaler"

PRINTERS = {
    ("apps", "deployments"): Printer(
        (
            NAME,
            READY,
            col("Up-to-date", "apps.v1.DeploymentStatus#updatedReplicas"),
            col("Available", "apps.v1.DeploymentStatus#availableReplicas"),
            AGE,
            CONTAINERS,
            IMAGES,
            col("Selector", "apps.v1.DeploymentSpec#selector", wide=True),
        ),
        deployment,
    ),
    ("apps", "replicasets"): Printer(_counted("apps.v1.ReplicaSet"), replicas),
    ("", "replicationcontrollers"): Printer(_counted("core.v1.ReplicationController"), replicas),
    ("apps", "statefulsets"): Printer((NAME, READY, AGE, CONTAINERS, IMAGES), stateful_set),
    ("apps", "daemonsets"): Printer(
        (
            NAME,
            *(col(title, f"apps.v1.DaemonSetStatus#{field}", type="integer") for title, field in DAEMON_COUNTS.items()),
            col("Node Selector", "core.v1.PodSpec#nodeSelector"),
            AGE,
            CONTAINERS,
            IMAGES,
            col("Selector", "apps.v1.DaemonSetSpec#selector", wide=True),
        ),
        daemon_set,
    ),
    ("apps", "controllerrevisions"): Printer(
        (
            NAME,
            col("Controller", "The object that this is a revision of"),
            col("Revision", "apps.v1.ControllerRevision#revision"),
            AGE,
        ),
        controller_revision,
    ),
    ("batch", "jobs"): Printer(
        (
            NAME,
            col("Status", "The state of the job, in one word"),
            col("Completions", "batch.v1.JobStatus#succeeded"),
            col("Duration", "How long the job took, or has taken so far"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        job,
    ),
    ("batch", "cronjobs"): Printer(
        (
            NAME,
            col("Schedule", "batch.v1.CronJobSpec#schedule"),
            col("Timezone", "batch.v1.CronJobSpec#timeZone"),
            col("Suspend", "batch.v1.CronJobSpec#suspend", type="boolean"),
            col("Active", "batch.v1.CronJobStatus#active", type="integer"),
            col("Last Schedule", "batch.v1.CronJobStatus#lastScheduleTime"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ),
        cron_job,
    ),
    ("", "podtemplates"): Printer(
        (
            NAME,
            col("Containers", "Names of the template's containers"),
            col("Images", "Images of the template's containers"),
            col("Pod Labels", "Labels that pods of the template get"),
        ),
        pod_template,
    ),
    ("policy", "poddisruptionbudgets"): Printer(
        (
            NAME,
            col("Min Available", "How many pods must stay available"),
            col("Max Unavailable", "How many pods may be unavailable"),
            col("Allowed Disruptions", "How many pods may be disrupted now", type="integer"),
            AGE,
        ),
        disruption_budget,
    ),
    ("autoscaling", "horizontalpodautoscalers"): Printer(
        (
            NAME,
            col("Reference", f"{HPA}Spec#scaleTargetRef"),
            col("Targets", f"{HPA}Spec#metrics"),
            col("MinPods", f"{HPA}Spec#minReplicas"),
            col("MaxPods", f"{HPA}Spec#maxReplicas"),
            col("Replicas", f"{HPA}Status#currentReplicas"),
            AGE,
        ),
        autoscaler,
    ),
}

"""How a pod's many states become the one word in `kubectl get pods`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.tables.ages import age, human, parse_time
from ullage.standalone.apiserver.tables.cells import AGE, NAME, NONE, Printer, col, condition, deleting, holds, many, name, text

COLUMNS = (
    NAME,
    col("Ready", "How many of the pod's containers are ready"),
    col("Status", "The state of the pod and of its containers, in one word"),
    col("Restarts", "How often containers of this pod were restarted, and when the last time was"),
    AGE,
    col("IP", "core.v1.PodStatus#podIP", wide=True),
    col("Node", "core.v1.PodSpec#nodeName", wide=True),
    col("Nominated Node", "core.v1.PodStatus#nominatedNodeName", wide=True),
    col("Readiness Gates", "core.v1.PodSpec#readinessGates", wide=True),
)


@dataclass(slots=True)
class Tally:
    """What is counted while walking over container states."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last: datetime | None = None

    def count(self, state: Json) -> None:
        self.restarts += state.get("restartCount") or 0
        finished = parse_time(dig(state, "lastState", "terminated", "finishedAt"))
        if finished is not None and (self.last is None or finished > self.last):
            self.last = finished


def pod_cells(pod: Json, now: datetime) -> list[Any]:
    tally = _tally(pod)
    sidecars = _sidecars(pod)
    total = len(many(pod, "spec", "containers")) + len(sidecars)
    restarts = str(tally.restarts)
    if tally.restarts and tally.last is not None:
        restarts += f" ({human((now - tally.last).total_seconds())} ago)"
    ips = many(pod, "status", "podIPs")
    return [
        name(pod),
        f"{tally.ready}/{total}",
        tally.reason,
        restarts,
        age(pod, now),
        text(ips[0], "ip", empty=NONE) if ips else text(pod, "status", "podIP", empty=NONE),
        text(pod, "spec", "nodeName", empty=NONE),
        text(pod, "status", "nominatedNodeName", empty=NONE),
        _gates(pod),
    ]


def pod_conditions(pod: Json) -> list[Json]:
    """A finished pod's row says so, which lets clients grey it out."""
    match dig(pod, "status", "phase"):
        case "Succeeded":
            message = "The pod has completed successfully."
        case "Failed":
            message = "The pod failed."
        case _:
            return []
    return [{"type": "Completed", "status": "True", "reason": dig(pod, "status", "phase"), "message": message}]


def _sidecars(pod: Json) -> set[str]:
    """Init containers that keep running beside the main ones: they count as containers."""
    return {each["name"] for each in many(pod, "spec", "initContainers") if each.get("restartPolicy") == "Always"}


def _tally(pod: Json) -> Tally:
    tally = Tally(text(pod, "status", "reason") or text(pod, "status", "phase"))
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        tally.reason = "SchedulingGated"
    beside = Tally("")
    initializing = _walk_init(pod, tally, beside)
    if not initializing or holds(pod, "Initialized"):
        tally.restarts, tally.last = beside.restarts, beside.last
        _walk_main(pod, tally)
    if deleting(pod):
        if dig(pod, "status", "reason") == "NodeLost":
            tally.reason = "Unknown"
        elif dig(pod, "status", "phase") not in ("Succeeded", "Failed"):
            tally.reason = "Terminating"
    return tally


def _walk_init(pod: Json, tally: Tally, beside: Tally) -> bool:
    """Whether an init container still holds the pod up; if so, the reason names it."""
    sidecars = _sidecars(pod)
    for done, each in enumerate(many(pod, "status", "initContainerStatuses")):
        tally.count(each)
        terminated = dig(each, "state", "terminated")
        if each.get("name") in sidecars:
            beside.count(each)
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if each.get("name") in sidecars and each.get("started"):
            tally.ready += bool(each.get("ready"))
            continue
        waiting = text(each, "state", "waiting", "reason")
        if terminated is not None:
            tally.reason = f"Init:{_ended(terminated)}"
        elif waiting and waiting != "PodInitializing":
            tally.reason = f"Init:{waiting}"
        else:
            tally.reason = f"Init:{done}/{len(many(pod, 'spec', 'initContainers'))}"
        return True
    return False


def _walk_main(pod: Json, tally: Tally) -> None:
    running = False
    for each in reversed(many(pod, "status", "containerStatuses")):
        tally.count(each)
        terminated, waiting = dig(each, "state", "terminated"), text(each, "state", "waiting", "reason")
        if waiting:
            tally.reason = waiting
        elif terminated is not None:
            tally.reason = _ended(terminated)
        elif each.get("ready") and dig(each, "state", "running") is not None:
            running = True
            tally.ready += 1
    if running and tally.reason == "Completed":  # one container is done, others are not: the pod is not
        tally.reason = "Running" if holds(pod, "Ready") else "NotReady"


def _ended(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _gates(pod: Json) -> str:
    gates = many(pod, "spec", "readinessGates")
    return f"{sum(holds(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}" if gates else NONE


PRINTERS = {("", "pods"): Printer(COLUMNS, pod_cells, pod_conditions)}

"""Records anew what machine-controller says of a MachineSet: `python -m tools.peers.machine_controller.record`.

It runs the pinned machine-controller beside an embedded API server and takes one MachineSet through the steps below. Status and
Events of each go to `machine_set_recorded.json` beside the unit tests of the played controller, which take that one through the
same steps. `--check` writes nothing and says what differs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.projects_scene import UserCluster
from tests.e2e.snapshot_scene import eventually
from tests.peers.machine_controller import COMBINED, EVENTS, SETS, MachineController, template, times, wait_for_a_pause
from tools.peers.go_programs import NoPrograms, say
from tools.peers.machine_controller.build import machine_controller
from ullage.projects.api.machines import GROUP, MACHINE_SETS, MACHINES, VERSION

Json = dict[str, Any]
RECORDED: Final = Path(__file__).parents[3] / "tests/unit/standalone/world/controllers/machine_set_recorded.json"
NAME: Final = "pool"
QUIET: Final = 4.0  # seconds: between its waits of 2.6 s, and the try after that, and of 5.1 s
REFUSAL: Final = "there is no room"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@dataclass(frozen=True, slots=True)
class Step:
    """`room`: whether Machines are admitted."""

    name: str
    replicas: int
    room: bool


STEPS: Final = (
    Step("all three are refused", 3, room=False),
    Step("all three are made", 3, room=True),
    Step("two are deleted", 1, room=True),
    Step("two more are refused", 3, room=False),
    Step("the last one is deleted", 0, room=True),
)


class Recording:
    def __init__(self, cluster: UserCluster) -> None:
        self._api = cluster.api
        self._told = 0
        self._room = True
        rule = {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE"], "resources": [MACHINES.plural]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": REFUSAL}],
        }
        self._api.create(POLICIES, _object("ValidatingAdmissionPolicy", {"metadata": {"name": NAME}, "spec": spec}))
        self._cluster = cluster

    def record(self, step: Step) -> Json:
        self._admit(step.room)
        if self._api.get(f"{SETS}/{NAME}").code == 200:
            # Something in the metadata changes as well: with the same number of replicas nothing would wake machine-controller.
            change = {"metadata": {"annotations": {"step": step.name}}, "spec": {"replicas": step.replicas}}
            self._api.merge(f"{SETS}/{NAME}", change)
        else:
            spec = {"replicas": step.replicas, "selector": {"matchLabels": {"pool": NAME}}, "template": template(NAME)}
            kind = {"apiVersion": MACHINE_SETS.api_version, "kind": MACHINE_SETS.kind}
            self._api.create(SETS, {**kind, "metadata": {"name": NAME}, "spec": spec})
        if step.room:
            eventually(step.name, lambda: self._is_settled(step.replicas))
        else:
            wait_for_a_pause(lambda: times(self._events()), QUIET)  # the next step shall not fall into a try
        return {"step": step.name, "replicas": step.replicas, "room": step.room, **self._seen()}

    def _events(self) -> list[Json]:
        return [one for one in self._api.get(EVENTS).obj["items"] if one["involvedObject"]["kind"] == MACHINE_SETS.kind]

    def _is_settled(self, replicas: int) -> bool:
        found = self._api.get(f"{SETS}/{NAME}").obj
        status = found.get("status", {})
        there = (status.get("replicas", 0), status.get("availableReplicas", 0), status.get("observedGeneration"))
        return there == (replicas, replicas, found["metadata"]["generation"])

    def _seen(self) -> Json:
        """`tries` is how many Events there are more than after the step before, each counted as often as it was told."""
        found = self._api.get(f"{SETS}/{NAME}").obj
        status = dict(found["status"])
        current = status.pop("observedGeneration") == found["metadata"]["generation"]
        told = times(self._events())
        tries, self._told = told - self._told, told
        newest = max(self._events(), key=lambda one: one.get("lastTimestamp") or "") if tries else None
        return {"status": status, "statusIsCurrent": current, "tries": tries, "event": _event(newest) if newest else None}

    def _admit(self, room: bool) -> None:
        if room == self._room:
            return
        self._room = room
        if room:
            self._api.delete(f"{BINDINGS}/{NAME}")
        else:
            spec = {"policyName": NAME, "validationActions": ["Deny"]}
            self._api.create(BINDINGS, _object("ValidatingAdmissionPolicyBinding", {"metadata": {"name": NAME}, "spec": spec}))
        eventually("the policy is followed", lambda: (self._cluster.ask("probe", dry_run=True).code == 201) == room)


def _object(kind: str, rest: Mapping[str, Any]) -> Json:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **rest}


def _event(found: Json) -> Json:
    """What it says before the refusals, and how many of these there are."""
    message = str(found["message"]).removeprefix(COMBINED)
    begins, _, _ = message.partition(": ")
    return {
        "kind": found["involvedObject"]["kind"],
        "reason": found["reason"],
        "type": found["type"],
        "begins": begins,
        "refusals": message.count(REFUSAL),
    }


def recorded(programs: Path) -> list[Json]:
    with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
        cluster = UserCluster("recorded", Path(folder))
        try:
            recording = Recording(cluster)
            with MachineController(programs, cluster, Path(folder) / "machine-controller.log"):
                return [recording.record(step) for step in STEPS]
        finally:
            cluster.server.stop()


def differences(before: Sequence[Json], now: Sequence[Json]) -> list[str]:
    """Steps that say something else than before. How often was tried may differ by a few: that is a matter of time."""
    if len(before) != len(now):
        return [f"{len(before)} steps are recorded, {len(now)} were run"]
    pairs = zip(before, now, strict=True)
    return [f"{new['step']}: {old} is now {new}" for old, new in pairs if {**old, "tries": 0} != {**new, "tries": 0}]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.peers.machine_controller.record", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs from what is recorded")
    options = parser.parse_args(arguments)
    try:
        steps = recorded(machine_controller(os.environ))
    except NoPrograms as problem:
        say(str(problem))
        return 1
    if options.check:
        found = differences(json.loads(RECORDED.read_text()), steps)
        print("\n".join(found) or f"all {len(steps)} steps are as recorded")
        return 1 if found else 0
    RECORDED.write_text(json.dumps(steps, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

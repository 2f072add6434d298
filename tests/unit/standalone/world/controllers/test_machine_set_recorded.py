"""The MachineSet controller that we play, through the steps in which the real one was recorded by tools.peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tests.unit.standalone.world.controllers.test_machine_set import KEY, Hands
from ullage.kube.controller.controller import Requeue
from ullage.kube.errors import Forbidden
from ullage.projects.api.machines import MACHINES, MachineSetStatus
from ullage.standalone.world.controllers.machine_set import FAILED

Json = dict[str, Any]
STEPS: list[Json] = json.loads((Path(__file__).parent / "machine_set_recorded.json").read_text())
QUIET = 4.0  # seconds: a step ends with a wait that is longer, as when it was recorded
REFUSAL = "there is no room"
WAKES = 3  # tries more that the real one may have made: its own writes wake it, too


async def run(hands: Hands, step: Json, *, generation: int) -> Json:
    told = len(hands.told.reasons)
    hands.api.refusal = None if step["room"] else Forbidden(REFUSAL, code=403)
    hands.want(step["replicas"], generation=generation)
    again: Requeue | None = Requeue(0.0)
    while again is not None and again.after < QUIET:
        again = await hands.reconcile()
        for (kind, key), body in hands.api.objects.items():
            if kind == MACHINES.name:
                body["status"] = {"nodeRef": {"name": key.name}}
        for name in [one.metadata.name for one in hands.machines.items()]:
            if name not in hands.api.machines:
                hands.machines.put(KEY._replace(name=name), None)
    if step["room"]:
        await hands.reconcile()  # with all that was done
    tries = hands.told.reasons[told:]
    return {"tries": len(tries), "status": hands.api.status(), "notes": hands.told.notes[told:], "reasons": set(tries)}


async def test_status_and_events_are_those_of_the_real_one_in_each_step() -> None:
    hands = Hands(0)
    for generation, step in enumerate(STEPS, 1):
        found = await run(hands, step, generation=generation)
        status = msgspec.convert(found["status"], MachineSetStatus)
        wanted = {**step["status"], "observedGeneration": generation}
        assert status == msgspec.convert(wanted, MachineSetStatus), step["step"]
        assert set(found["status"]) <= {*wanted}, "no field that the real one does not write"
        assert -WAKES <= found["tries"] - step["tries"] <= 1, step["step"]
        if (event := step["event"]) is not None:
            assert found["reasons"] == {event["reason"]}
            assert (FAILED.type, "MachineSet") == (event["type"], event["kind"])
            assert found["notes"][-1] == f"{event['begins']}: " + "; ".join([REFUSAL] * event["refusals"])

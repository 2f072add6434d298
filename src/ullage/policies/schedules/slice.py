"""The slice as one value: snapshot schedules, their two controllers and the hook on them."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Grant, Part, Slice, Wiring, Write
from ullage.policies.cut_hooks.webhook.access import ACCESS_WRITES
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.controllers.retain import ScheduleRetainer
from ullage.policies.schedules.controllers.run import ScheduleRunner
from ullage.policies.schedules.lookup import DIALECTS, schedule_lookup
from ullage.policies.schedules.webhook.hooks import make_hooks

NAME: Final = "schedules"
WATCHES: Final[tuple[Kind[Any], ...]] = (
    SCHEDULES,
    CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    *(dialect.snapshots for dialect in DIALECTS.values()),
)
WRITES: Final = (
    Write(SCHEDULES, ("patch",), ("status",)),
    *(Write(dialect.snapshots, ("get", "create", "patch", "delete")) for dialect in DIALECTS.values()),
)
GRANTS: Final = (
    Grant(
        name="edit",
        roles=("edit", "admin"),
        kinds=(SCHEDULES,),
        verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    ),
    Grant(name="view", roles=("view",), kinds=(SCHEDULES,), verbs=("get", "list", "watch")),
)


def schedules() -> Slice:
    return Slice(
        name=NAME,
        kinds=(SCHEDULES,),
        controllers=Part(make=make_controllers, watches=WATCHES, writes=WRITES, events=True),
        hooks=Part(make=make_hooks, writes=ACCESS_WRITES),
        grants=GRANTS,
    )


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
    lookup, recorder = wiring.shared(schedule_lookup), wiring.recorder(NAME)
    runner = ScheduleRunner(wiring.client, lookup, recorder=recorder, clock=wiring.clock)
    retainer = ScheduleRetainer(wiring.client, lookup, recorder=recorder, clock=wiring.clock)
    return [one.controller(metrics=wiring.metrics) for one in (runner, retainer)]

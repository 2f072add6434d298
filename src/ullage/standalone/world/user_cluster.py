"""The slice: its controllers, and what they may do. On a cluster of KKP the real machine-controller has their place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from ullage.standalone.world.controllers.machine import Moments, machine_controller
from ullage.standalone.world.controllers.machine_deployment import machine_deployment_controller
from ullage.standalone.world.controllers.machine_set import machine_set_controller

NAME: Final = "world"
KINDS: Final = (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS)


def user_cluster(moments: Moments | None = None) -> Slice:
    """`moments`: how long machines take to come and to go."""

    def controllers(wiring: Wiring) -> Iterable[Controller[Any]]:
        recorder = wiring.recorder(NAME)
        yield machine_deployment_controller(wiring, recorder=recorder)
        yield machine_set_controller(wiring, recorder=recorder)
        yield machine_controller(wiring, moments=moments or Moments())

    return Slice(
        name=NAME,
        foreign=KINDS,
        controllers=Part(
            make=controllers,
            watches=KINDS,
            writes=(
                Write(MACHINES, ("create", "patch", "delete")),
                Write(MACHINE_SETS, ("create", "patch", "delete")),
                *(Write(kind, ("patch",), ("status",)) for kind in (MACHINE_SETS, MACHINE_DEPLOYMENTS)),
            ),
            events=True,
        ),
    )

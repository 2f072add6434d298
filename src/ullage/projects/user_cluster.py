"""What a process in a user cluster runs: it tells the users of that cluster what they could not see otherwise, and no more.

Whoever administers the cluster may stop it, or change what it reads. So the seed depends on nothing that it does; it holds no
key and no credential, and has no right to write but Events.
"""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS
from ullage.projects.controllers import deployment_shortage as shortage
from ullage.projects.controllers import registration_watch as registration
from ullage.projects.machines.registrations import SELECTED

WATCHES: Final[tuple[Kind[Any], ...]] = (*registration.WATCHES, *shortage.WATCHES)


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
    recorder, metrics, clock = wiring.recorder("user-cluster"), wiring.metrics, wiring.clock
    watch = registration.RegistrationWatch(
        wiring.cache(NAMESPACES, fields=f"metadata.name={registration.NAMESPACE}"),
        wiring.cache(VALIDATING_WEBHOOKS, labels=SELECTED),
        wiring.cache(MUTATING_WEBHOOKS, labels=SELECTED),
        recorder=recorder,
        clock=clock,
        registry=metrics.registry,
    )
    shortages = shortage.MachineShortages(
        wiring.cache(MACHINE_DEPLOYMENTS), recorder=recorder, clock=clock, registry=metrics.registry
    )
    return [watch.controller(metrics=metrics), shortages.controller(metrics=metrics)]

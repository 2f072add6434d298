"""The slice as one value: what is charged, and the hooks that do it."""

from __future__ import annotations

from ullage.headroom.charges import charging
from ullage.headroom.settings import Settings
from ullage.kube.slices import Slice
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, MACHINES
from ullage.vms.api.migrations import MIGRATIONS


def headroom(settings: Settings | None = None) -> Slice:
    """`settings` say whose word is believed, and whether restores of virtual machines are ours. The kinds are KubeVirt's."""
    chosen = settings or Settings()
    return Slice(
        name="headroom",
        served=(MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS),
        shared=charging(restores=chosen.restores == "manage"),
    )

"""How many machines a MachineDeployment lacks, and what its owner is told. Pure."""

from __future__ import annotations

from ullage.kube.objects import is_deleting
from ullage.projects.api.machines import MachineDeployment


def lacks(deployment: MachineDeployment) -> int:
    """Machines that are wanted and were not made. None while nothing is done about it, or was looked at since it changed."""
    meta, spec, status = deployment.metadata, deployment.spec, deployment.status
    if is_deleting(meta) or spec.paused or status.observed_generation < meta.generation:
        return 0
    wanted = 1 if spec.replicas is None else spec.replicas
    return max(0, wanted - status.replicas)


def note(deployment: MachineDeployment, *, lacking: int) -> str:
    meta, replicas = deployment.metadata, deployment.spec.replicas
    wanted = 1 if replicas is None else replicas
    return (
        f"{lacking} of {wanted} machines were not made for more than a minute. Where the project's quota is"
        f" the reason, Events MachineRefused say so: kubectl describe machinedeployment -n {meta.namespace} {meta.name}. Then"
        " scale down here or in another cluster of the project, or have the quota raised"
    )

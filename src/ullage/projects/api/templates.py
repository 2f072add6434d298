"""MachineSets and MachineDeployments with the whole of what they make machines from: a rolling replacement is told by templates
that differ anywhere, and not only in what is known here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.projects.api.machines import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetSpec,
)


class SetTemplateSpec(MachineSetSpec):
    """What is wanted of a set."""

    template: Any = None
    """What each machine is made from, as it is written."""


class SetTemplate(MachineSet):
    """A MachineSet."""

    spec: SetTemplateSpec = SetTemplateSpec()
    """What is wanted of the set."""


class DeploymentTemplateSpec(MachineDeploymentSpec):
    """What is wanted of a deployment."""

    template: Any = None
    """What each machine is made from, as it is written."""


class DeploymentTemplate(MachineDeployment):
    """A MachineDeployment."""

    spec: DeploymentTemplateSpec = DeploymentTemplateSpec()
    """What is wanted of the deployment."""


def _typed(kind: Kind[Any], type: Any) -> Kind[Any]:
    return replace(kind, type=type)


SET_TEMPLATES: Final[Kind[SetTemplate]] = _typed(MACHINE_SETS, SetTemplate)
DEPLOYMENT_TEMPLATES: Final[Kind[DeploymentTemplate]] = _typed(MACHINE_DEPLOYMENTS, DeploymentTemplate)

"""What a VM takes of its namespace's limits: the limits of its launcher pod, by the KubeVirt that a cluster has. Pure.

`Pricing` is the one way to a cost: admission, the ledger, restores, `ullage vm cost` and the simulated KubeVirt use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ullage.errors import BadInput
from ullage.vms.api.kubevirts import KubeVirt, KubeVirtConfiguration
from ullage.vms.launcher.containers import Part, bytes_in, thousandths_in
from ullage.vms.launcher.guest import part
from ullage.vms.launcher.pod import LauncherPod, launcher_pod
from ullage.vms.launcher.settings import MOST_RATIO, NO_RULES, ClusterSettings, NamespaceRules, settings_of
from ullage.vms.launcher.versions import NEWEST, Numbers, numbers_of
from ullage.vms.seed_cost import cpu_limit, memory_limit, seed_parts

AUTO: Final = "auto"  # the version of the KubeVirt object
SEED: Final = "seed"  # the formula of the design


@dataclass(frozen=True, slots=True)
class Cost:
    """What a VM takes of its namespace's limits."""

    cpu: int  # thousandths
    memory: int  # bytes
    parts: tuple[Part, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Pricing:
    """How VMs of one namespace are charged for. Without `settings` the formula of the design holds."""

    settings: ClusterSettings | None
    rules: NamespaceRules = NO_RULES

    def cost_of(self, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> Cost:
        """`spec` and `annotations` are those of a VirtualMachineInstance, or of a VirtualMachine's template. Raises BadInput,
        which names the field below `spec.template.spec`."""
        pod = self.pod_of(spec, annotations)
        if pod is None:
            parts = seed_parts(spec)
            return Cost(sum(one.cpu for one in parts), sum(one.memory for one in parts), parts)
        bounds = pod.bounds
        return Cost(thousandths_in(bounds), bytes_in(bounds, "memory"), pod.parts)

    def pod_of(self, spec: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> LauncherPod | None:
        """The pod that KubeVirt makes; None where the formula of the design holds, which knows no pod."""
        return None if self.settings is None else launcher_pod(spec, self.settings, self.rules, annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingChoice:
    """What an administrator chose: `auto`, `seed` or a version of KubeVirt, and the overhead ratio for a KubeVirt object that
    has none. Raises BadInput, which names the option."""

    version: str = AUTO
    overhead_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.version not in (AUTO, SEED):
            try:
                numbers_of(self.version, where="--kubevirt")
            except BadInput as error:
                raise BadInput(error.where, self.version, f"{error.problem}; so are {AUTO} and {SEED}") from error
        ratio = self.overhead_ratio
        if ratio is not None and not 0 <= ratio <= MOST_RATIO:
            raise BadInput("--overhead-ratio", f"{ratio:g}", f"a number from 0 to {MOST_RATIO:g} is allowed")

    def settings_by(self, kubevirt: KubeVirt | None) -> ClusterSettings | None:
        """By the KubeVirt object of a cluster; without one KubeVirt's defaults hold. None: the formula of the design."""
        if self.version == SEED:
            return None
        found = kubevirt.spec.configuration if kubevirt is not None else KubeVirtConfiguration()
        settings = settings_of(found, self._numbers(kubevirt))
        if self.overhead_ratio is not None and not found.overhead_ratio:
            return replace(settings, overhead_ratio=self.overhead_ratio)
        return settings

    def _numbers(self, kubevirt: KubeVirt | None) -> Numbers:
        """A cluster that does not say its version, or says one that nobody released, has the newest numbers."""
        if self.version != AUTO:
            return numbers_of(self.version, where="--kubevirt")
        try:
            return numbers_of(kubevirt.status.observed_version if kubevirt is not None else "", where="status")
        except BadInput:
            return numbers_of(str(NEWEST), where="--kubevirt")


def asked_of(spec: Mapping[str, Any]) -> Cost:
    """What its owner asks for: its limits, without what comes on top. `spec` is as above. Raises BadInput."""
    domain = part(spec, "domain")
    return Cost(cpu=cpu_limit(domain), memory=memory_limit(domain))

"""What a cluster and a namespace add to the pod of a VM: KubeVirt's version and settings, and core ResourceQuotas. Pure.

`settings_of` reads them from the KubeVirt object. Settings that KubeVirt itself ignores, since they cannot be, are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.pods.resources import Amounts, parsed
from ullage.quantity import Quantity, QuantityError
from ullage.selectors import NOTHING, LabelSelector, SelectorError
from ullage.vms.api.kubevirts import ContainerResources, KubeVirtConfiguration
from ullage.vms.launcher.versions import Numbers

AUTO_LIMITS_GATE: Final = "AutoResourceLimitsGate"
MEMORY_RATIO_LABEL: Final = "alpha.kubevirt.io/auto-memory-limits-ratio"  # of a namespace
DEFAULT_MEMORY_RATIO: Final = 2.0
MOST_RATIO: Final = 1000.0


def _amounts(**texts: str) -> Amounts:
    return {name.replace("_", "-"): Quantity.parse(text) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class Support:
    """Limits and requests of a container beside `compute`."""

    limits: Amounts = field(default_factory=dict)
    requests: Amounts = field(default_factory=dict)


# By the type that `supportContainerResources` has for them.
SUPPORT: Final[Mapping[str, Support]] = {
    "guest-console-log": Support(_amounts(cpu="15m", memory="60M"), _amounts(cpu="5m", memory="35M")),
    "container-disk": Support(_amounts(cpu="10m", memory="40M"), _amounts(cpu="1m", memory="1M", ephemeral_storage="50M")),
    "virtiofs": Support(_amounts(cpu="100m", memory="80M"), _amounts(cpu="10m", memory="1M")),
    "sidecar": Support(),
}
GUARANTEED_SIDECAR: Final = _amounts(cpu="200m", memory="64M")
DISK_BINARY: Final = Support(_amounts(cpu="100m", memory="40M"), _amounts(cpu="10m", memory="1M"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A network binding plugin: the memory that it takes of `compute`, and whether it runs a sidecar."""

    memory: int = 0
    sidecar: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """KubeVirt as a cluster has it, as far as it sizes pods."""

    numbers: Numbers
    overhead_ratio: float = 1.0
    memory_overcommit: int = 100
    cpu_allocation_ratio: int = 10
    console_log: bool = True
    auto_limits_gate: bool = False
    auto_cpu_limit: LabelSelector = NOTHING
    """Labels of namespaces in which VMs without a CPU limit are given one."""
    architecture: str = ""
    """The architecture of VMs that do not say theirs."""
    support: Mapping[str, Support] = field(default_factory=dict)
    """By type: limits and requests that stand in place of the usual ones, resource by resource."""
    bindings: Mapping[str, Binding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRules:
    """What the namespace of a VM adds: limits, where a core ResourceQuota asks for them."""

    limits_cpu: bool = False
    limits_memory: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, quotas: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> NamespaceRules:
        """`quotas`: the `spec.hard` of the namespace's core ResourceQuotas."""
        asked = {name for hard in quotas for name in hard}
        return cls(limits_cpu="limits.cpu" in asked, limits_memory="limits.memory" in asked, labels=labels)

    @property
    def memory_ratio(self) -> float:
        """A memory limit that KubeVirt gives is this many times the request."""
        found = number(self.labels.get(MEMORY_RATIO_LABEL, ""))
        return found if found is not None and found >= 1 else DEFAULT_MEMORY_RATIO


NO_RULES: Final = NamespaceRules()


def settings_of(configuration: KubeVirtConfiguration, numbers: Numbers) -> ClusterSettings:
    """`configuration` is `spec.configuration` of the KubeVirt object."""
    developer, options = configuration.developer_configuration, configuration.virtual_machine_options
    overcommit, allocation = (developer.memory_overcommit, developer.cpu_allocation_ratio) if developer else (None, None)
    default = configuration.architecture_configuration
    ratio = number(configuration.overhead_ratio)
    return ClusterSettings(
        numbers=numbers,
        overhead_ratio=1.0 if ratio is None else ratio,
        memory_overcommit=overcommit if overcommit and overcommit > 0 else 100,
        cpu_allocation_ratio=allocation if allocation and allocation > 0 else 10,
        console_log=options is None or options.disable_serial_console_log is None,
        auto_limits_gate=developer is not None and AUTO_LIMITS_GATE in developer.feature_gates,
        auto_cpu_limit=_selector(configuration.auto_cpu_limit_namespaces),
        architecture=default.default_architecture if default is not None else "",
        support={one.type: _support(one.resources) for one in configuration.support_container_resources},
        bindings=_bindings(configuration),
    )


def number(text: str) -> float | None:
    """A ratio as KubeVirt reads it; None for what is none, and for what would make any pod too large to count."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and 0 <= found <= MOST_RATIO else None


def _selector(written: Mapping[str, Any] | None) -> LabelSelector:
    try:
        return LabelSelector.of(written)
    except (SelectorError, TypeError, AttributeError):
        return NOTHING


def _support(resources: ContainerResources) -> Support:
    return Support(_parsed(resources.limits), _parsed(resources.requests))


def _bindings(configuration: KubeVirtConfiguration) -> dict[str, Binding]:
    plugins = configuration.network.binding if configuration.network is not None else {}
    return {
        name: Binding(
            memory=_memory(_parsed(one.compute_resource_overhead.requests) if one.compute_resource_overhead else {}),
            sidecar=bool(one.sidecar_image),
        )
        for name, one in plugins.items()
    }


def _memory(amounts: Amounts) -> int:
    return amounts["memory"].value() if "memory" in amounts else 0


def _parsed(texts: Mapping[str, Any]) -> Amounts:
    try:
        return parsed(texts)
    except QuantityError:  # KubeVirt's own webhook lets none pass
        return {}

"""The caches that say what VMs cost in a namespace: KubeVirt's own object, core ResourceQuotas, and labels of namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ullage.kube.builtin.core import CORE_QUOTAS, NAMESPACES, CoreQuota
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Wiring
from ullage.vms.api.kubevirts import KUBEVIRTS, KubeVirt
from ullage.vms.launcher.settings import NO_RULES, NamespaceRules
from ullage.vms.pricing import Pricing, PricingChoice

BY_NAMESPACE: Final = "namespace of a quota"
WATCHES: Final[tuple[Kind[Any], ...]] = (KUBEVIRTS, CORE_QUOTAS, NAMESPACES)


def kubevirt_in(cache: Cache[KubeVirt]) -> KubeVirt | None:
    """A cluster has one. Of several the first by name counts, in every process the same."""
    return min(cache.items(), key=lambda one: (one.metadata.namespace, one.metadata.name), default=None)


@dataclass(frozen=True, slots=True)
class PriceSources:
    kubevirts: Cache[KubeVirt]
    quotas: Cache[CoreQuota]
    namespaces: Cache[Object]

    def kubevirt(self) -> KubeVirt | None:
        return kubevirt_in(self.kubevirts)

    def rules(self, namespace: str) -> NamespaceRules:
        quotas: list[Mapping[str, Any]] = [one.spec.hard for one in self.quotas.by(BY_NAMESPACE, namespace)]
        found = self.namespaces.get(Key("", namespace))
        return NamespaceRules.of(quotas, found.metadata.labels if found is not None else {})


def price_sources(wiring: Wiring) -> PriceSources:
    """Through `wiring.shared`: once for each wiring, since indexes have names."""
    sources = PriceSources(wiring.cache(KUBEVIRTS), wiring.cache(CORE_QUOTAS), wiring.cache(NAMESPACES))
    sources.quotas.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
    return sources


@dataclass(frozen=True, slots=True)
class Prices:
    """What VMs cost now, by an administrator's choice and what the caches have."""

    choice: PricingChoice
    sources: PriceSources

    def of(self, namespace: str) -> Pricing:
        return Pricing(self.choice.settings_by(self.sources.kubevirt()), self.sources.rules(namespace))

    def elsewhere(self, namespace: str) -> Iterator[Pricing]:
        """How another replica may have charged a moment ago: before it saw a change of KubeVirt's object, of the quotas, or of
        its own options."""
        now = self.of(namespace)
        seen = (now.rules, replace(now.rules, limits_cpu=False, limits_memory=False), NO_RULES)
        quotas = (*seen, replace(now.rules, limits_cpu=True, limits_memory=True))
        kubevirt = self.sources.kubevirt()
        for choice in (self.choice, PricingChoice(), PricingChoice(version="seed")):
            settings = choice.settings_by(kubevirt)
            yield from (Pricing(settings, rules) for rules in (quotas if settings is not None else quotas[:1]))

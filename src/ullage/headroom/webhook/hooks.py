"""All hooks of the slice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.headroom.namespaces import EXCEEDS
from ullage.headroom.settings import Settings
from ullage.headroom.webhook import namespaces as namespace_webhook
from ullage.headroom.webhook.instances import Instances
from ullage.headroom.webhook.machines import Machines
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Wiring, Write
from ullage.ledger.charging.registry import registry_of
from ullage.vms.api.machines import INSTANCES, MACHINES

WATCHES: Final[tuple[Kind[Any], ...]] = tuple(dict.fromkeys((NAMESPACES, *namespace_webhook.WATCHES)))
WRITES: Final = tuple(Write(kind, ("get",)) for kind in (MACHINES, INSTANCES))


def make_hooks(wiring: Wiring, settings: Settings) -> Iterable[Hook]:
    registry, namespaces = registry_of(wiring), wiring.cache(NAMESPACES)

    def exceeds(namespace: str) -> bool:
        found = namespaces.get(Key("", namespace))
        return found is not None and found.metadata.annotations.get(EXCEEDS) == "true"

    machines = Machines(registry.registered(MACHINES), wiring.client, settings, exceeds=exceeds)
    instances = Instances(registry.registered(INSTANCES), wiring.client, settings)
    return (*namespace_webhook.make_hooks(wiring), *machines.hooks(), *instances.hooks())

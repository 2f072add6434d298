"""All hooks of the slice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.headroom.namespaces import EXCEEDS
from ullage.headroom.settings import Settings
from ullage.headroom.webhook import namespaces as namespace_webhook
from ullage.headroom.webhook.instances import Instances
from ullage.headroom.webhook.machines import Machines
from ullage.headroom.webhook.migrations import Migrations
from ullage.headroom.webhook.pods import Pods
from ullage.headroom.webhook.restores import Restores
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Wiring, Write
from ullage.ledger.charging.registry import registry_of
from ullage.vms import prices as vm_prices
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.restores import VM_RESTORES
from ullage.vms.instance_types.reader import READ
from ullage.vms.prices import Prices, price_sources

WATCHES: Final[tuple[Kind[Any], ...]] = tuple(dict.fromkeys((NAMESPACES, *namespace_webhook.WATCHES, *vm_prices.WATCHES)))


def reads(settings: Settings) -> tuple[Write, ...]:
    """What is asked of the API itself, one object at a time."""
    kinds: tuple[Kind[Any], ...] = (
        VIRTUAL_MACHINES,
        INSTANCES,
        *READ,
        *((VM_BACKUPS, VM_RESTORES) if settings.restores == "manage" else ()),
    )
    return tuple(Write(kind, ("get",)) for kind in kinds)


def make_hooks(wiring: Wiring, settings: Settings) -> Iterable[Hook]:
    registry, namespaces = registry_of(wiring), wiring.cache(NAMESPACES)

    def exceeds(namespace: str) -> bool:
        found = namespaces.get(Key("", namespace))
        return found is not None and found.metadata.annotations.get(EXCEEDS) == "true"

    client, prices = wiring.client, Prices(settings.pricing, wiring.shared(price_sources))
    restores = Restores(registry.registered(VM_RESTORES), client, settings, prices) if settings.restores == "manage" else None
    room = {"booked": restores.pays_for, "held": restores.holds_room} if restores else {}
    return (
        *namespace_webhook.make_hooks(wiring),
        *Machines(registry.registered(VIRTUAL_MACHINES), client, settings, prices=prices, exceeds=exceeds, **room).hooks(),
        *Instances(registry.registered(INSTANCES), client, settings, prices).hooks(),
        *Migrations(registry.registered(MIGRATIONS), client, settings, prices).hooks(),
        *Pods(registry.registered(WATCHED_PODS), settings).hooks(),
        *(restores.hooks() if restores else ()),
    )

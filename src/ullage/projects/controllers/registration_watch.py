"""Tells the users of a cluster when its Machines are not asked about any more: an Event on the namespace that they are in, and
a metric. There is one key, that namespace.

It puts nothing back: that is done by the seed, which nobody in the cluster can keep from it, with rights that no process in the
cluster needs to have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge

from ullage.clock import Clock
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WebhookConfiguration
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.metrics import Metrics
from ullage.projects.machines.registrations import missing

# What the users of a cluster are told whose Machines are not asked about at the seed (`machines/registrations`).


def note(lacking: list[str]) -> str:
    which = " and ".join(lacking)
    return (
        f"of the seed's webhooks {which} is not registered in this cluster as the seed did it. Machines that are made now are"
        " not asked about: they count for the project's quota all the same, past its limit. The seed puts it back by itself,"
        " within a minute where it reaches this cluster; if it does not, tell whoever runs the seed"
    )


NAME: Final = "machine-registration"
WATCHES: Final[tuple[Kind[Any], ...]] = (NAMESPACES, VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
NAMESPACE: Final = "kube-system"  # where Machines are
GRACE: Final = 10.0  # seconds: the two are not written at once
NOT_ASKED: Final = Reason("MachinesNotAsked", type="Warning")
ASKED: Final = Reason("MachinesAsked")


class RegistrationWatch:
    """The controller. `namespaces` has the one namespace; the others have what is labelled as ours."""

    def __init__(
        self,
        namespaces: Cache[Object],
        validating: Cache[WebhookConfiguration],
        mutating: Cache[WebhookConfiguration],
        *,
        recorder: EventRecorder,
        clock: Clock,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._namespaces = namespaces
        self._validating = validating
        self._mutating = mutating
        self._recorder = recorder
        self._clock = clock
        self._since: float | None = None  # when something was first seen to be missing
        self._told = ""
        self._asked = Gauge(
            "ullage_user_cluster_machines_asked",
            "1 while new Machines of this cluster are asked about at the seed",
            registry=registry or CollectorRegistry(),
        )

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(cache, _one) for cache in (self._namespaces, self._validating, self._mutating)
        ]
        return Controller(NAME, sources, self.reconcile, workers=1, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        lacking = missing(self._validating.items(), self._mutating.items())
        self._asked.set(0 if lacking else 1)
        if not lacking:
            self._since = None
            if self._told:
                self._told = ""
                self._tell(ASKED, "the seed is asked about new Machines again")
            return None
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if (wait := self._since + GRACE - now) > 0:
            return Requeue(wait)
        if self._told != (text := note(lacking)):
            self._told = text
            self._tell(NOT_ASKED, text)
        return None

    def _tell(self, reason: Reason, text: str) -> None:
        namespace = self._namespaces.get(Key("", NAMESPACE))
        if namespace is not None:
            self._recorder.record(NAMESPACES, namespace, reason, note=text)


def _one(changed: Object) -> Iterable[Key]:
    return (Key("", NAMESPACE),)

"""Which claims a pod or a StatefulSet uses, and which snapshots were taken of them. Pure.

Snapshots that we look after carry labels for their claim and volume, so the API server finds them. Those that others made, or
that nobody has looked at yet, carry none: what their spec says counts for them, and for claims it counts in every case, since
whoever may edit a snapshot may label it as they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from ullage.kube.builtin.apps import StatefulSet
from ullage.kube.builtin.core import Pod, PodSpec
from ullage.snapshots.model import CLAIM_LABEL, VOLUME_LABEL, Ref, Snapshot, label_value

# A selector is part of a URL, and servers refuse URLs that are too long: beyond this everything is read and looked through.
SELECTOR_LIMIT: Final = 4000
_ORDINAL: Final = re.compile(r"0|[1-9][0-9]*")

# --- selections ------------------------------------------------------------------------------------------------------


class Selection(Protocol):
    """Some of the snapshots of a namespace, or of all."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """The label selectors of the lists to read, in this order: a snapshot that gets its labels meanwhile is in two of
        them, and none is missed."""

    def takes(self, snapshot: Snapshot) -> bool:
        """Whether one that was read is meant."""


@dataclass(frozen=True, slots=True)
class Everything:
    selectors: tuple[str, ...] = ("",)

    def takes(self, snapshot: Snapshot) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class OfClaims:
    """Snapshots of claims: by name, and by names that differ in an ordinal only (what stands before and after it)."""

    names: frozenset[str] = frozenset()
    numbered: frozenset[tuple[str, str]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.numbered)

    @property
    def selectors(self) -> tuple[str, ...]:
        if not self:
            return ()
        values = ",".join(sorted(map(label_value, self.names)))
        if self.numbered or len(values) > SELECTOR_LIMIT:  # no selector knows patterns
            return ("",)
        return f"!{CLAIM_LABEL}", f"{CLAIM_LABEL} in ({values})"

    def takes(self, snapshot: Snapshot) -> bool:
        return bool(snapshot.claim) and self.has(snapshot.claim)

    def has(self, claim: str) -> bool:
        return claim in self.names or any(_is_numbered(claim, *around) for around in self.numbered)


@dataclass(frozen=True, slots=True)
class OfVolume:
    """Snapshots of a PersistentVolume. `claim` is the one that it is bound to, where that is known."""

    name: str
    claim: Ref | None = None

    @property
    def selectors(self) -> tuple[str, ...]:
        labelled = f"{VOLUME_LABEL}={label_value(self.name)}"
        return (f"!{VOLUME_LABEL}", labelled) if self.claim else (labelled,)

    def takes(self, snapshot: Snapshot) -> bool:
        found = snapshot.meta.labels.get(VOLUME_LABEL)
        if found is not None:
            return found == label_value(self.name)
        return self.claim is not None and (snapshot.meta.namespace, snapshot.claim) == (self.claim.namespace, self.claim.name)


def of_pod(pod: Pod) -> OfClaims:
    return OfClaims(names=frozenset((*_named(pod.spec), *(f"{pod.metadata.name}-{name}" for name in _ephemeral(pod.spec)))))


def of_stateful_set(found: StatefulSet) -> OfClaims:
    """The claims of all ordinals there are, were, or will be: those that a smaller number of replicas left behind too."""
    name, spec, templates = found.metadata.name, found.pod_spec, found.claim_templates
    own = ((f"{template}-{name}-", "") for template in templates)
    pods = ((f"{name}-", f"-{volume}") for volume in _ephemeral(spec))
    shared = (claim for volume, claim in _claims(spec) if volume not in templates)
    return OfClaims(names=frozenset(shared), numbered=frozenset((*own, *pods)))


def _named(spec: PodSpec) -> Iterable[str]:
    return (claim for _, claim in _claims(spec))


def _claims(spec: PodSpec) -> Iterable[tuple[str, str]]:
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name:
            yield volume.name, volume.persistent_volume_claim.claim_name


def _ephemeral(spec: PodSpec) -> Iterable[str]:
    return (volume.name for volume in spec.volumes if volume.ephemeral is not None)


def _is_numbered(claim: str, before: str, after: str) -> bool:
    if not (claim.startswith(before) and claim.endswith(after) and len(claim) > len(before) + len(after)):
        return False
    return bool(_ORDINAL.fullmatch(claim[len(before) : len(claim) - len(after)]))

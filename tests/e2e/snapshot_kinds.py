"""The kinds of both snapshot APIs under names of a module's own, so that modules and workers that share a cluster make and
delete them independently. The groups stay under k8s.io, which the API server guards."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import Any

from ullage.kube.kinds import Kind
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE

from .kubectl import Kubectl

_NAMES: dict[Kind[Any], tuple[str, str]] = {
    GA.snapshots: ("ga", "gasnapshot"),
    GA.records: ("ga", "gacontent"),
    GA.classes: ("ga", "gaclass"),
    PROTOTYPE.snapshots: ("proto", "protosnapshot"),
    PROTOTYPE.records: ("proto", "protodata"),
}


class OwnKinds:
    """Each of the five kinds, by the one that it is like."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex[:6]
        self.like = {kind: self._renamed(kind, *names) for kind, names in _NAMES.items()}
        self.all = tuple(self.like.values())

    def _renamed(self, kind: Kind[Any], group: str, one: str) -> Kind[Any]:
        return dataclasses.replace(
            kind,
            group=f"{group}{self.mark}.k8s.io",
            kind=f"{one.capitalize()}{self.mark}",
            plural=f"{one}s{self.mark}",
            short_names=tuple(f"{name}{self.mark}" for name in kind.short_names),
        )


def until_explained(kubectl: Kubectl, kind: Kind[Any], *, seconds: float = 30.0) -> None:
    """kube-apiserver publishes the schema a moment after it serves the kind."""
    deadline = time.monotonic() + seconds
    while kubectl.run("explain", kind.name).code != 0:
        assert time.monotonic() < deadline, f"kubectl explain does not know {kind.name} after {seconds} s"

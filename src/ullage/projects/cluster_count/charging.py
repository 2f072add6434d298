"""Has the clusters of a seed counted, each in the ledger of its project's clusters: in every process of the seed."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.ledger.charging.registry import Charged, registry_of
from ullage.ledger.service.views import Evaluator
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.cluster_count.ledger import ledger_of, takes

WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS,)
OF_CLUSTERS: Final[Evaluator[Cluster]] = Evaluator(ledger_of=ledger_of, takes=takes)


def register(wiring: Wiring) -> Charged[Cluster]:
    """To be called while the part `shared` is made, which watches `WATCHES`."""
    return registry_of(wiring).register(CLUSTERS, OF_CLUSTERS)

"""How many clusters a project has, in a ledger of its own: `clusters-<id>` on each seed, where every Cluster takes one.

So `maxClusters` is exact on a seed, with any number of replicas and of creates at once: what was admitted and is not there yet
is reserved. It is no account of the ledger `project-<id>`: the master tells the limits of that one, under numbers of its own.

The master tells its limit, too, under other numbers (`escrow/divisions.py`): each seed has a part of the project's number, and
gets more where it asks and others have some to spare. So the number holds over all seeds. Pure.
"""

from __future__ import annotations

from typing import Final

from ullage.ledger.amounts import Amounts, Cell, Takings
from ullage.projects.api.kkp import Cluster
from ullage.projects.clusters import project_of
from ullage.projects.names import is_project_id
from ullage.quantity import Quantity

ACCOUNT: Final = "clusters"
RESOURCE: Final = "clusters"
CELL: Final = Cell(ACCOUNT, RESOURCE)
_PREFIX: Final = "clusters-"
_ONE: Final = Takings.of({ACCOUNT: Amounts({RESOURCE: Quantity.of(1)})})


def ledger_name(project: str) -> str:
    return f"{_PREFIX}{project}"


def project_in(ledger: str) -> str:
    """The project whose clusters a ledger counts; empty: it counts none."""
    return ledger.removeprefix(_PREFIX) if ledger.startswith(_PREFIX) else ""


def ledger_of(cluster: Cluster) -> str:
    """Empty for one that somebody else runs, or is of no project."""
    project = project_of(cluster)
    return ledger_name(project) if is_project_id(project) else ""


def takes(cluster: Cluster) -> Takings:
    return _ONE

"""The command `ullage` with slices that have the kinds of a master and of a seed and do nothing: for how control planes come
and go, whatever runs in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import ullage.app
from ullage.app.drivers import Chosen
from ullage.kube.slices import Slice
from ullage.ledger.api import LEDGERS
from ullage.projects.api.kkp import CLUSTERS, PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS


def slices(chosen: Chosen) -> Iterator[Slice]:
    for role in chosen.projects.roles:
        match role:
            case "cluster":
                yield Slice(name="cluster")
            case "master":
                yield Slice(name="master", kinds=(PROJECT_QUOTAS,), foreign=(PROJECTS, SEEDS, SETTINGS))
            case "seed":
                yield Slice(name="seed", kinds=(PROJECT_QUOTAS, LEDGERS), foreign=(CLUSTERS,))


if __name__ == "__main__":
    ullage.app.main(lambda chosen: tuple(slices(chosen)), program=(sys.executable, __file__))

"""A master with seeds, projects with quotas, and user clusters in which a few of the projects have Machines.

A user cluster has an API server of its own and belongs to one project: so a few projects have one on every seed, and the others
have a quota, its copies and a ledger on every seed, and no Machines. Every quota is far larger than what is asked for.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import urllib3

from bench.apiserver.__main__ import say
from tests.e2e.api import Api
from tests.e2e.projects_scene import Platform, SeedCluster, UserCluster
from tests.e2e.snapshot_scene import eventually
from ullage.app.installer.manifests import NAMESPACE
from ullage.ledger.api import LEDGERS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.quantity import Quantity

SECONDS: Final = 1200.0
CLIENTS: Final = 8  # that build a platform, and fill it
AMPLE: Final = 100  # times what is asked for
SPARE: Final = 10_000  # Machines, besides those that are there at first


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    projects: int
    seeds: int
    clusters: int  # on each seed, each of another project
    machines: int

    def one(self) -> Size:
        """One project on one seed, with a user cluster that has as many Machines as each of these."""
        return Size(projects=1, seeds=1, clusters=1, machines=max(1, self.machines // (self.seeds * self.clusters)))

    def __str__(self) -> str:
        counted = ((self.projects, "project"), (self.seeds, "seed"), (self.machines, "machine"))
        return ", ".join(f"{count:,} {name}{'s' if count > 1 else ''}" for count, name in counted)


@dataclass(frozen=True, slots=True)
class Placed:
    """A user cluster, and whose it is."""

    project: str
    user: UserCluster


class UsageWatch:
    """When the master's sum of a project was seen to reach which number of CPUs. Every Machine has one."""

    def __init__(self, api: Api, project: str) -> None:
        self._path = f"{PROJECT_QUOTAS.path()}?fieldSelector=metadata.name%3Dproject-{project}"
        self._api = api
        self._times: list[float] = []
        self._highest: list[int] = []  # rising; beside the times
        threading.Thread(target=self._read, name=f"usage of {project}", daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                with self._api.watch(self._path) as events:
                    for event in events:
                        self._see(event["object"].get("status", {}).get("globalUsage") or {})
            except (urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.01)  # silence for half a minute, or the end of the run; a new watch begins with what is there

    def _see(self, usage: dict[str, str]) -> None:
        seen = Quantity.parse(usage.get("cpu", "0")).value()
        if not self._highest or seen > self._highest[-1]:
            self._times.append(time.monotonic())
            self._highest.append(seen)

    @property
    def highest(self) -> int:
        return self._highest[-1] if self._highest else 0

    def delays(self, answered: Iterable[float], *, before: int) -> list[float]:
        """Seconds from each answer until so many were in the sum; the sum has all of them by now. None is less than 0: the sum
        may have a Machine before its maker has the answer."""
        found = []
        for count, moment in enumerate(sorted(answered), start=before + 1):
            found.append(max(0.0, self._times[bisect_left(self._highest, count)] - moment))
        return found


class Side:
    """One platform, with all that is measured on it."""

    def __init__(self, platform: Platform, size: Size) -> None:
        self.platform = platform
        self.size = size
        self.projects = [f"p{number:04}" for number in range(size.projects)]
        self.placed: list[Placed] = []
        self.watches: dict[str, UsageWatch] = {}
        self.divided_seconds = 0.0  # until the quotas of those without machines were divided among the seeds
        self.counts = dict.fromkeys(self.projects[: size.clusters], 0)  # Machines of each that has some

    def build(self) -> None:
        """Until the quotas of those that have user clusters are exact, and every seed has the ledgers of all."""
        say(f"{self.size}: is built")
        for number in range(self.size.seeds):
            self.platform.add_seed(f"s{number}")
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self.platform.project, self.projects))
        for name, seed in self.platform.seeds.items():
            self.placed += [Placed(project, seed.add(f"{project}-{name}", project)) for project in self.counts]
        self._limit(self.counts)
        for project in self.counts:
            self.platform.in_force(project)
            self.watches[project] = UsageWatch(self.platform.api, project)
        begun = time.monotonic()
        self._limit(self.projects[self.size.clusters :])
        for seed in self.platform.seeds.values():
            eventually(f"{seed.name} has all ledgers", partial(self._has_ledgers, seed), seconds=SECONDS, every=2.0)
        self.divided_seconds = time.monotonic() - begun

    def _limit(self, projects: Iterable[str]) -> None:
        most = AMPLE * (self.size.machines + SPARE)
        quota = {"cpu": str(most), "memory": f"{most}Gi", "storage": f"{10 * most}Gi"}
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda project: self.platform.set_quota(project, **quota), projects))

    def settle(self) -> None:
        """Until the master's sums have every Machine that was made."""
        for project, count in self.counts.items():
            what = f"the master has {count} CPUs of {project}"
            eventually(what, partial(self._is_summed, project, count), seconds=SECONDS)

    def _has_ledgers(self, seed: SeedCluster) -> bool:
        return len(seed.api.get(LEDGERS.path(NAMESPACE)).obj["items"]) >= self.size.projects

    def _is_summed(self, project: str, count: int) -> bool:
        return self.watches[project].highest >= count

"""Tells the owner of a Machine that was refused: a Warning on the MachineDeployment, or the MachineSet, in the user cluster.

Whoever looks why there are fewer machines than he asked for looks there. It is written with that cluster's own credentials, in
the background, each saying once (`kube/events`): an answer never waits for it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Object
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS
from ullage.projects.webhook.surges import Owners

CONTROLLER: Final = "ullage.io/projects"
REFUSED: Final = Reason("MachineRefused", type="Warning")


class RefusalEvents:
    """A recorder for each cluster in which something was refused. Leave it with `async with`: what is left is written then."""

    def __init__(self, clusters: Clusters, *, instance: str, clock: Clock) -> None:
        self._clusters = clusters
        self._instance = instance
        self._clock = clock
        self._recorders: dict[str, tuple[FollowedCluster, Recorder]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False
        clusters.handle(self._changed)

    async def __aenter__(self) -> RefusalEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped = True
        for name in list(self._recorders):
            self._end(name)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def record(self, cluster: str, owners: Owners, note: str) -> None:
        """Never raises or waits. Where no owner is there, nobody would see it."""
        if owners.deployment is not None:
            self._say(cluster, MACHINE_DEPLOYMENTS, owners.deployment, note)
        elif owners.set is not None:
            self._say(cluster, MACHINE_SETS, owners.set, note)

    def _say(self, cluster: str, kind: Kind[Any], owner: Object, note: str) -> None:
        found = self._recorder(cluster)
        if found is not None:
            found.record(kind, owner, REFUSED, note=note)

    def _recorder(self, cluster: str) -> Recorder | None:
        followed = self._clusters.get(cluster)
        if followed is None or self._stopped:
            return None
        if cluster not in self._recorders:
            made = Recorder(followed.client, CONTROLLER, instance=self._instance, clock=self._clock)
            made.start()
            self._recorders[cluster] = followed, made
        return self._recorders[cluster][1]

    def _changed(self, name: str, cluster: FollowedCluster | None) -> None:
        """With another client, or none, the recorder of before can write nothing any more."""
        if name in self._recorders and self._recorders[name][0] is not cluster:
            self._end(name)

    def _end(self, name: str) -> None:
        _, recorder = self._recorders.pop(name)
        task = asyncio.get_running_loop().create_task(recorder.stop(), name=f"events of {name}")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def refusal_events(wiring: Wiring) -> RefusalEvents:
    """Those of this process: `wiring.shared(refusal_events)`."""
    made = RefusalEvents(wiring.clusters, instance=wiring.instance, clock=wiring.clock)
    wiring.hold(made)
    return made

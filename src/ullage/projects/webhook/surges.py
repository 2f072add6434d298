"""Whether a Machine that is about to be made replaces another: looked up in what is held of its user cluster, by owner.

Everything there may be made up (`machines/surge.py` says what is believed). How much is looked at has an end: a deployment with
more machines than that gets no allowance. And each state of an object is looked at once: a deployment of hundreds that does not
fit has one refused after the other, and all others wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINES, Machine
from ullage.projects.api.templates import DEPLOYMENT_TEMPLATES, SET_TEMPLATES, DeploymentTemplate, SetTemplate
from ullage.projects.charging.keys import StampKeys, stamp_keys
from ullage.projects.machines.deployments import DEFAULT_REPLICAS
from ullage.projects.machines.digests import BadSpec
from ullage.projects.machines.facts import Room
from ullage.projects.machines.reading import (
    controller_uid,
    deployment_facts,
    machine_facts,
    owned_machine,
    set_facts,
    set_of,
)
from ullage.projects.machines.signatures import Valid, verify
from ullage.projects.machines.surge import (
    DeploymentFacts,
    OwnedMachine,
    SetFacts,
    SurgeAllowance,
    SurgeSetting,
    allowance,
    surplus,
)

T = TypeVar("T")

MOST_MACHINES: Final = 500  # of one deployment, and as many sets: each is verified for the answer
MOST_LOOKED: Final = 500  # deployments of one cluster, when somebody wants to know which of them are replacing machines
REMEMBERED: Final = 20_000  # objects of all clusters; then it begins anew
_UID: Final = "uid"
_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class Owners:
    """What a Machine belongs to; None: nothing that is there."""

    set: SetTemplate | None = None
    deployment: DeploymentTemplate | None = None


class Surges:
    def __init__(self, clusters: Clusters, keys: StampKeys) -> None:
        self._clusters = clusters
        self._keys = keys
        self._machines: _Looked[OwnedMachine | None] = _Looked()
        self._sets: _Looked[SetFacts | BadSpec] = _Looked()
        self._deployments: _Looked[DeploymentFacts | BadSpec] = _Looked()
        clusters.handle(_indexed)

    def owners(self, cluster: str, machine: Machine) -> Owners:
        """By uid, as its owner references have it."""
        followed, uid = self._clusters.get(cluster), set_of(machine.metadata)
        if followed is None or not uid:
            return Owners()
        found = next(iter(followed.cache(SET_TEMPLATES).by(_UID, uid)), None)
        owner = controller_uid(found.metadata, MACHINE_DEPLOYMENTS.kind) if found is not None else ""
        deployments = followed.cache(DEPLOYMENT_TEMPLATES).by(_UID, owner) if owner else ()
        return Owners(found, next(iter(deployments), None))

    def set_by_uid(self, cluster: str, uid: str) -> SetTemplate | None:
        followed = self._clusters.get(cluster)
        return next(iter(followed.cache(SET_TEMPLATES).by(_UID, uid)), None) if followed is not None else None

    def missing(self, cluster: str, uid: str) -> int:
        """How many Machines a MachineSet lacks. None are missing of a set that is gone or is being deleted."""
        followed, found = self._clusters.get(cluster), self.set_by_uid(cluster, uid)
        if followed is None or found is None or is_deleting(found.metadata):
            return 0
        wanted = DEFAULT_REPLICAS if found.spec.replicas is None else found.spec.replicas
        living = sum(not is_deleting(one.metadata) for one in followed.cache(MACHINES).by(_OWNER, uid))
        return max(0, wanted - living)

    def deployment(self, cluster: str, namespace: str, name: str) -> DeploymentTemplate | None:
        followed = self._clusters.get(cluster)
        return followed.cache(DEPLOYMENT_TEMPLATES).get(Key(namespace, name)) if followed is not None else None

    def allowance(
        self, cluster: str, owners: Owners, *, setting: SurgeSetting, size: Amounts, room: Mapping[str, Room]
    ) -> SurgeAllowance | None:
        """What a new Machine may pass the limit by. None: it is in no deployment, or that is too large or cannot be read."""
        followed = self._clusters.get(cluster)
        if followed is None or owners.set is None or owners.deployment is None:
            return None
        sets = followed.cache(SET_TEMPLATES).by(_OWNER, owners.deployment.metadata.uid)
        if len(sets) > MOST_MACHINES:
            return None
        cache = followed.cache(MACHINES)
        machines = [one for each in sets for one in cache.by(_OWNER, each.metadata.uid)]
        if len(machines) > MOST_MACHINES:
            return None
        try:
            return allowance(
                self._deployment(cluster, owners.deployment),
                [self._set(cluster, one) for one in sets],
                [owned for one in machines if (owned := self._owned(cluster, one)) is not None],
                setting=setting,
                creator=owners.set.metadata.uid,
                size=size,
                room=room,
            )
        except BadSpec:
            return None

    def surplus(self, cluster: str) -> list[tuple[str, SurgeAllowance]]:
        """The deployments of a cluster that have more machines than they want replicas, since they are replacing some: name,
        and how far that is. Of very many some are looked at."""
        followed = self._clusters.get(cluster)
        if followed is None:
            return []
        found: list[tuple[str, SurgeAllowance]] = []
        for deployment in sorted(followed.cache(DEPLOYMENT_TEMPLATES).items(), key=lambda one: one.metadata.name)[:MOST_LOOKED]:
            if (there := self._surplus(cluster, followed, deployment)) is not None:
                found.append((deployment.metadata.name, there))
        return found

    def _surplus(self, cluster: str, followed: FollowedCluster, deployment: DeploymentTemplate) -> SurgeAllowance | None:
        sets = followed.cache(SET_TEMPLATES).by(_OWNER, deployment.metadata.uid)
        if not 1 < len(sets) <= MOST_MACHINES:
            return None  # with one set nothing is replaced
        cache = followed.cache(MACHINES)
        machines = [one for each in sets for one in cache.by(_OWNER, each.metadata.uid)]
        if len(machines) > MOST_MACHINES:
            return None
        try:
            return surplus(
                self._deployment(cluster, deployment),
                [self._set(cluster, one) for one in sets],
                [owned for one in machines if (owned := self._owned(cluster, one)) is not None],
            )
        except BadSpec:
            return None

    def _set(self, cluster: str, one: SetTemplate) -> SetFacts:
        """Raises BadSpec."""
        return _good(self._sets.get(cluster, one.metadata, lambda: _tried(lambda: set_facts(one, one.spec.template))))

    def _deployment(self, cluster: str, one: DeploymentTemplate) -> DeploymentFacts:
        """Raises BadSpec."""
        found = self._deployments.get(cluster, one.metadata, lambda: _tried(lambda: deployment_facts(one, one.spec.template)))
        return _good(found)

    def _owned(self, cluster: str, machine: Machine) -> OwnedMachine | None:
        keys = self._keys.current

        def look() -> OwnedMachine | None:
            verdict = verify(machine_facts(cluster, machine), keys)
            return owned_machine(machine, verdict.amounts) if isinstance(verdict, Valid) else None

        return self._machines.get(cluster, machine.metadata, look, under=keys)


class _Looked(Generic[T]):
    """What was found out about objects, each in the state that it was in."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[Hashable, T]] = {}

    def get(self, cluster: str, meta: Meta, look: Callable[[], T], *, under: Hashable = None) -> T:
        """`under` is what else it depends on."""
        key, state = (cluster, meta.uid), (meta.resource_version, under)
        known = self._found.get(key)
        if known is None or known[0] != state:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            known = self._found[key] = state, look()
        return known[1]


def _tried(read: Callable[[], T]) -> T | BadSpec:
    """What cannot be read is remembered as well: to find that out may take as long."""
    try:
        return read()
    except BadSpec as error:
        return error


def _good(found: T | BadSpec) -> T:
    if isinstance(found, BadSpec):
        raise found.with_traceback(None)  # else it would grow by each time that it is raised
    return found


def shared_surges(wiring: Wiring) -> Surges:
    """Those of this process: `wiring.shared(shared_surges)`."""
    return Surges(wiring.clusters, wiring.shared(stamp_keys))


def _indexed(name: str, cluster: FollowedCluster | None) -> None:
    if cluster is None:
        return
    cluster.cache(SET_TEMPLATES).index(_UID, lambda one: (one.metadata.uid,))
    cluster.cache(SET_TEMPLATES).index(_OWNER, lambda one: (controller_uid(one.metadata, MACHINE_DEPLOYMENTS.kind),))
    cluster.cache(DEPLOYMENT_TEMPLATES).index(_UID, lambda one: (one.metadata.uid,))
    cluster.cache(MACHINES).index(_OWNER, lambda one: (set_of(one.metadata),))

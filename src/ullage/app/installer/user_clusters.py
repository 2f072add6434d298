"""Our hooks in the user clusters of a seed. An uninstall takes them out: without their server they refuse every Machine.

A cluster that cannot be reached in time holds up nobody: it is named, with what to run there. Whether there may be such hooks
at all is told by the Secret with the key under which other clusters ask: a webhook makes it before it registers anything there.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.admission.elsewhere import name_elsewhere
from ullage.app.installer.manifests import NAMESPACE
from ullage.app.installer.names import EVERY
from ullage.app.installer.outcomes import Outcome
from ullage.errors import UllageError
from ullage.kube.builtin import core
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.client.client import Client
from ullage.kube.client.config import BadConfig, Config
from ullage.kube.clusters.clusters import KUBECONFIG
from ullage.kube.crds.definitions import MANAGED_BY, OURS
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.kinds import Kind, Object
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.charging.machines import charged_project, namespace_of
from ullage.projects.settings import KUBECONFIG_SECRET

SECONDS: Final = 10.0  # for all that is asked of one cluster
AT_ONCE: Final = 16  # clusters
KINDS: Final[tuple[Kind[Any], ...]] = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksElsewhere:
    """`connect` makes a client of a config; it is opened here, and closed."""

    client: Client
    connect: Callable[[Config], Client]
    dry_run: bool = False
    seconds: float = SECONDS

    async def remove(self) -> list[Outcome]:
        """In the order of the clusters' names. Nothing is asked where no webhook of ours has answered other clusters."""
        names = [name_elsewhere(one.registration) for one in EVERY if await self._answered(one.callers)]
        if not names:
            return []
        try:
            clusters = (await self.client.list(CLUSTERS)).items
        except NotFound:  # there is no such kind
            return []
        gate = asyncio.Semaphore(AT_ONCE)

        async def visit(cluster: Cluster) -> list[Outcome]:
            async with gate:
                return await self._visit(cluster, names)

        found = await asyncio.gather(*(visit(one) for one in sorted(clusters, key=lambda one: one.metadata.name)))
        return [outcome for outcomes in found for outcome in outcomes]

    async def _answered(self, callers: str) -> bool:
        return await self.client.find(core.SECRETS, callers, NAMESPACE) is not None

    async def _visit(self, cluster: Cluster, names: Sequence[str]) -> list[Outcome]:
        name = cluster.metadata.name
        try:
            config = await self._config(cluster)
            if config is None:
                return []
            async with self.connect(config) as client, asyncio.timeout(self.seconds):
                return [one for kind in KINDS for hook in names for one in await self._take(client, kind, hook, cluster=name)]
        except TimeoutError:
            return [_problem(name, names, f"it did not answer in {self.seconds:.0f} s")]
        except UllageError as error:
            return [_problem(name, names, str(error))]
        except Exception as error:  # whatever is wrong with one of them, the others are visited; it may tell of credentials
            return [_problem(name, names, f"{type(error).__name__} while it was asked")]

    async def _config(self, cluster: Cluster) -> Config | None:
        """None: nobody has followed it, so nothing was registered there."""
        namespace = namespace_of(cluster)
        secret = await self.client.find(core.SECRETS, KUBECONFIG_SECRET, namespace)
        where = f"secret {namespace}/{KUBECONFIG_SECRET}"
        if secret is None and not charged_project(cluster):
            return None
        if secret is None or KUBECONFIG not in secret.data:
            raise BadConfig(where, KUBECONFIG, "there is no such Secret" if secret is None else "it has no such key")
        try:
            return Config.foreign(secret.value(KUBECONFIG), where=where)
        except binascii.Error:
            raise BadConfig(where, KUBECONFIG, "this is not base64") from None

    async def _take(self, client: Client, kind: Kind[Any], hook: str, *, cluster: str) -> list[Outcome]:
        found: Object | None = await client.find(kind, hook)
        if found is None:
            return []
        about = (kind.kind.lower(), f"{hook} in cluster {cluster}")
        if found.metadata.labels.get(MANAGED_BY) != OURS:
            return [Outcome("left alone", *about, f"not ours: it lacks the label {MANAGED_BY}={OURS}")]
        try:
            if not self.dry_run:
                await client.delete(kind, hook, uid=found.metadata.uid)
        except NotFound:
            return []
        except Conflict as error:
            return [Outcome("problem", *about, f"{error.message}; {_by_hand([hook])}")]
        return [Outcome("deleted", *about)]


def _problem(cluster: str, names: Sequence[str], why: str) -> Outcome:
    return Outcome("problem", "cluster", cluster, f"{why}; if our hooks are there, it refuses Machines. {_by_hand(names)}")


def _by_hand(names: Sequence[str]) -> str:
    kinds = ",".join(kind.plural for kind in sorted(KINDS, key=lambda kind: kind.plural))
    return f"With a kubeconfig of that cluster, run: kubectl delete {kinds} {' '.join(names)} --ignore-not-found"

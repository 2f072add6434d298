"""Where the machines of each cluster of a seed are made, as its administrators say: Clusters, and the datacenters of Seeds.

Nothing here comes from a user cluster. A credential is used for the provider that a Cluster names it for, and at the address
that the datacenter of that Cluster has, and for nothing else: whoever administers a user cluster writes providers, regions and
addresses as he likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.slices import Wiring
from ullage.projects.api.kkp import CLUSTERS, SEEDS, CloudAccount, CloudAddress, Cluster, Datacenter, Seed
from ullage.projects.sizes.catalogue import Place
from ullage.projects.sizes.lookups import Site

WATCHES: Final = (CLUSTERS, SEEDS)
# A Cluster that names no credential: not empty, so that no name that a user made up takes its place, and no Secret either.
NO_CREDENTIAL: Final = "none"
BY_CREDENTIAL: Final = "credential that machines are made with"
# From KKP's names of providers to machine-controller's.
_RENAMED: Final = {"gcp": "gce", "packet": "equinixmetal"}


def provider_of(cluster: Cluster) -> str:
    """By machine-controller's name."""
    named = cluster.spec.cloud.provider_name
    return _RENAMED.get(named, named)


def credential_of(cluster: Cluster, *, namespace: str) -> str:
    """`namespace/name` of the Secret that its provider is asked with; in KKP's own namespace where the Cluster names none."""
    account = getattr(cluster.spec.cloud, cluster.spec.cloud.provider_name, None)
    reference = account.credentials_reference if isinstance(account, CloudAccount) else None
    if reference is None or not reference.name:
        return NO_CREDENTIAL
    return f"{reference.namespace or namespace}/{reference.name}"


def site_of(cluster: Cluster, datacenter: Datacenter | None, *, namespace: str) -> Site:
    spec = getattr(datacenter.spec, cluster.spec.cloud.provider_name, None) if datacenter else None
    address = spec if isinstance(spec, CloudAddress) else CloudAddress()
    credential = credential_of(cluster, namespace=namespace)
    return Site(credential, region=address.region or address.location, endpoint=address.auth_url.rstrip("/"))


class Sites:
    """Answers from memory. `namespace` is KKP's own, where credentials are that a Cluster names without one."""

    def __init__(self, clusters: Cache[Cluster], seeds: Cache[Seed], *, namespace: str) -> None:
        self._clusters = clusters
        self._seeds = seeds
        self._namespace = namespace
        clusters.index(BY_CREDENTIAL, lambda one: (credential_of(one, namespace=namespace),))

    def __call__(self, cluster: str) -> Site:
        """Where machines of the cluster of that name are made."""
        found = self._clusters.get(Key("", cluster))
        return Site(NO_CREDENTIAL) if found is None else self._of(found)

    def refusal(self, place: Place) -> str:
        """Why a place is not to be asked with its credential; empty: it may be."""
        if place.credential == NO_CREDENTIAL:
            return "no Cluster names a Secret for it in spec.cloud.*.credentialsReference"
        named = [one for one in self._clusters.by(BY_CREDENTIAL, place.credential) if provider_of(one) == place.provider]
        if not named:
            return f"no Cluster of this seed has Secret {place.credential} as its credential for {place.provider}"
        if place.endpoint and place.endpoint not in {self._of(one).endpoint for one in named}:
            return f"{place.endpoint} is not the address of a datacenter (authURL) of the clusters that use this credential"
        return ""

    def _of(self, cluster: Cluster) -> Site:
        return site_of(cluster, next(self._datacenters(cluster.spec.cloud.dc), None), namespace=self._namespace)

    def _datacenters(self, name: str) -> Iterator[Datacenter]:
        return (seed.spec.datacenters[name] for seed in self._seeds.items() if name in seed.spec.datacenters)


@dataclass(frozen=True, slots=True)
class SitesWith:
    """For `Wiring.shared`: one for all who are set to the same namespace. The controller and the webhook have to be: what is
    known of sizes is kept by credential."""

    namespace: str

    def __call__(self, wiring: Wiring) -> Sites:
        return Sites(wiring.cache(CLUSTERS), wiring.cache(SEEDS), namespace=self.namespace)

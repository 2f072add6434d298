"""Where machines of clusters are made, and whom a credential may be shown to: as administrators say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.projects.api.kkp import Cluster, Datacenter
from ullage.projects.sizes.lookups import Site
from ullage.projects.sizes.sites import NO_CREDENTIAL, credential_of, provider_of, site_of

REFERENCE = {"kind": "Secret", "name": "credential-x", "namespace": "kubermatic", "key": "token"}


def cluster(provider: str, **cloud: Any) -> Cluster:
    return msgspec.convert({"spec": {"cloud": {"providerName": provider, "dc": "dc-1", **cloud}}}, type=Cluster)


@pytest.mark.parametrize(
    ("named", "provider"),
    [("aws", "aws"), ("gcp", "gce"), ("packet", "equinixmetal"), ("openstack", "openstack"), ("kubevirt", "kubevirt")],
)
def test_providers_have_machine_controller_s_names(named: str, provider: str) -> None:
    assert provider_of(cluster(named)) == provider


@pytest.mark.parametrize("named", ["alibaba", "aws", "azure", "digitalocean", "gcp", "hetzner", "openstack", "packet"])
def test_the_credential_is_what_the_cluster_names_for_its_provider(named: str) -> None:
    found = cluster(named, **{named: {"credentialsReference": REFERENCE, "projectID": "more that KKP has"}})
    assert credential_of(found, namespace="kkp") == "kubermatic/credential-x"


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(cluster("aws"), id="nothing about the provider"),
        pytest.param(cluster("aws", aws={}), id="no reference"),
        pytest.param(cluster("aws", aws={"credentialsReference": {"name": ""}}), id="no name"),
        pytest.param(cluster("aws", hetzner={"credentialsReference": REFERENCE}), id="one of another provider"),
        pytest.param(cluster("dc", dc="kubermatic/x"), id="a provider that is the name of another field"),
        pytest.param(cluster("vsphere"), id="a provider that is not asked"),
        pytest.param(Cluster(), id="no provider"),
    ],
)
def test_a_cluster_without_a_credential_has_one_that_no_user_can_replace(found: Cluster) -> None:
    assert credential_of(found, namespace="kkp") == NO_CREDENTIAL


def test_a_reference_without_a_namespace_is_in_kkp_s() -> None:
    found = cluster("aws", aws={"credentialsReference": {"name": "x"}})
    assert credential_of(found, namespace="kkp") == "kkp/x"


@pytest.mark.parametrize(
    ("provider", "datacenter", "site"),
    [
        pytest.param("aws", {"aws": {"region": "eu-central-1"}}, Site(NO_CREDENTIAL, "eu-central-1"), id="aws"),
        pytest.param("azure", {"azure": {"location": "westeurope"}}, Site(NO_CREDENTIAL, "westeurope"), id="azure"),
        pytest.param(
            "openstack",
            {"openstack": {"authURL": "https://keystone/v3/", "region": "R1"}},
            Site(NO_CREDENTIAL, "R1", "https://keystone/v3"),
            id="openstack",
        ),
        pytest.param("aws", {"openstack": {"authURL": "https://keystone"}}, Site(NO_CREDENTIAL), id="of another provider"),
        pytest.param("hetzner", {"hetzner": {"network": "n"}}, Site(NO_CREDENTIAL), id="one that is the same everywhere"),
        pytest.param("aws", None, Site(NO_CREDENTIAL), id="no such datacenter"),
    ],
)
def test_the_datacenter_says_where(provider: str, datacenter: dict[str, Any] | None, site: Site) -> None:
    found = msgspec.convert({"spec": datacenter}, type=Datacenter) if datacenter is not None else None
    assert site_of(cluster(provider), found, namespace="kubermatic") == site

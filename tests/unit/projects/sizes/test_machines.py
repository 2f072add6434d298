"""The contract of sizes: a provider's documented answer and a machine's manifest give these amounts, for every provider."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.projects.sizes.recorded import ASKED, filled, value
from ullage.ledger.amounts import Amounts
from ullage.projects.sizes.catalogue import Catalogue, Flavour, FlavourKey, Place
from ullage.projects.sizes.lookups import Site, Unknown
from ullage.projects.sizes.machine import READERS, size_of
from ullage.projects.sizes.units import GI
from ullage.quantity import Quantity

Json = dict[str, Any]

SECRET = {"secretKeyRef": {"namespace": "kube-system", "name": "provider", "key": "token"}}
CLOUD = "https://keystone.example.com:5000/v3"

ALIBABA = Place("alibaba", region="eu-central-1")
AWS = Place("aws", region="eu-central-1")
AZURE = Place("azure", region="westeurope")
DIGITALOCEAN = Place("digitalocean")
EQUINIX = Place("equinixmetal")
GCE = Place("gce", region="europe-west3-a")
HETZNER = Place("hetzner")
KUBEVIRT = Place("kubevirt")
OPENSTACK = Place("openstack", region="RegionOne", endpoint=CLOUD)


def amounts(text: str) -> Amounts:
    return Amounts.parse(dict(zip(("cpu", "memory", "storage"), text.split(), strict=True)))


def alibaba(**spec: Any) -> Json:
    return value("alibaba", **{"regionID": "eu-central-1", "instanceType": "ecs.g6.large", "diskSize": "40", **spec})


def aws(**spec: Any) -> Json:
    return value("aws", **{"region": "eu-central-1", "instanceType": "t3.small", "diskSize": 25, "vpcId": "vpc-1", **spec})


def azure(**spec: Any) -> Json:
    return value("azure", **{"location": "westeurope", "vmSize": "Standard_B2s", "osDiskSize": 30, "dataDiskSize": 20, **spec})


def gce(machine_type: str, **spec: Any) -> Json:
    return value("gce", **{"zone": "europe-west3-a", "machineType": machine_type, "diskSize": 50, **spec})


def kubevirt(template: Json, **virtual: Any) -> Json:
    template = {"primaryDisk": {"osImage": "http://images.example.com/ubuntu.img", "size": "10Gi"}, **template}
    return value("kubevirt", clusterName="c", virtualMachine={"template": template, **virtual})


def nutanix(**spec: Any) -> Json:
    return value("nutanix", **{"imageName": "ubuntu", "cpus": 2, "memoryMB": 2048, "diskSize": 40, **spec})


def openstack(**spec: Any) -> Json:
    return value("openstack", **{"identityEndpoint": CLOUD, "region": "RegionOne", "flavor": "m1.small", **spec})


def vsphere(**spec: Any) -> Json:
    return value("vsphere", **{"templateVMName": "ubuntu", "cpus": 2, "memoryMB": 2048, "diskSizeGB": 10, **spec})


@pytest.mark.parametrize(
    ("place", "spec", "size"),
    [
        pytest.param(ALIBABA, alibaba(), "2 8Gi 80Gi", id="alibaba: a system disk and a data disk of the same size"),
        pytest.param(ALIBABA, alibaba(diskSize=40), "2 8Gi 80Gi", id="alibaba: a disk's size as a number"),
        pytest.param(ALIBABA, alibaba(instanceType="ecs.t5-lc2m1.nano"), "1 512Mi 80Gi", id="alibaba: half a Gi of memory"),
        pytest.param(AWS, aws(), "2 2Gi 25G", id="aws: the disk is the machine's, in G"),
        pytest.param(AWS, aws(instanceType="m5d.24xlarge"), "96 384Gi 25G", id="aws: the host's drives are not the node's"),
        pytest.param(AWS, aws(instanceType={"value": "t3.small"}), "2 2Gi 25G", id="aws: a value in an object"),
        pytest.param(AWS, aws(diskSize=25.0), "2 2Gi 25G", id="aws: a whole number that is written with a point"),
        pytest.param(AWS, aws(accessKeyId="AKIA", secretAccessKey="x"), "2 2Gi 25G", id="aws: credentials are not looked at"),
        pytest.param(AZURE, azure(), "2 4Gi 50Gi", id="azure: system and data disk"),
        pytest.param(AZURE, azure(dataDiskSize=0), "2 4Gi 30Gi", id="azure: no data disk"),
        pytest.param(AZURE, azure(vmSize="Standard_D2s_v3"), "2 8Gi 50Gi", id="azure: of the list of SKUs"),
        pytest.param(AZURE, azure(vmSize="Standard_A0"), "1 768Mi 50Gi", id="azure: three quarters of a Gi"),
        pytest.param(AZURE, azure(vmSize="Standard_E4-2s_v3"), "2 32Gi 50Gi", id="azure: fewer vCPUs than the hardware has"),
        pytest.param(AZURE, azure(vmSize="standard_b2S"), "2 4Gi 50Gi", id="azure: names of sizes have no case"),
        pytest.param(AZURE, azure(location="West Europe"), "2 4Gi 50Gi", id="azure: the name of a location for people"),
        pytest.param(DIGITALOCEAN, value("digitalocean", region="fra1", size="s-1vcpu-1gb"), "1 1Gi 25Gi", id="digitalocean"),
        pytest.param(
            EQUINIX, value("equinixmetal", instanceType="c3.small.x86", metro="fr"), "8 32Gi 960G", id="equinix: cores in words"
        ),
        pytest.param(
            EQUINIX, value("packet", instanceType="n3.xlarge.x86"), "64 1Ti 7650G", id="equinix: two processors, its old name"
        ),
        pytest.param(GCE, gce("n1-standard-2"), "2 7680Mi 50Gi", id="gce: of the list"),
        pytest.param(GCE, gce("custom-4-8192"), "4 8Gi 50Gi", id="gce: a custom type is computed"),
        pytest.param(GCE, gce("n2-custom-8-65536-ext"), "8 64Gi 50Gi", id="gce: a custom type with more memory"),
        pytest.param(GCE, gce("n2d-custom-2-1024", diskSize=0), "2 1Gi 25Gi", id="gce: machine-controller's own disk size"),
        pytest.param(HETZNER, value("hetzner", serverType="cpx11", location="fsn1"), "2 2Gi 40G", id="hetzner"),
        pytest.param(HETZNER, value("hetzner", serverType="22"), "2 2Gi 40G", id="hetzner: by number"),
        pytest.param(OPENSTACK, openstack(), "1 2Gi 20Gi", id="openstack: the flavour's disk"),
        pytest.param(OPENSTACK, openstack(rootDiskSizeGB=100), "1 2Gi 100Gi", id="openstack: a root disk instead"),
        pytest.param(OPENSTACK, openstack(rootDiskSizeGB=5), "1 2Gi 5Gi", id="openstack: a smaller one, too"),
        pytest.param(OPENSTACK, openstack(rootDiskSizeGB=None), "1 2Gi 20Gi", id="openstack: null is no root disk"),
        pytest.param(
            OPENSTACK, openstack(flavor="v1.small", rootDiskSizeGB=30), "2 4Gi 30Gi", id="openstack: a flavour without a disk"
        ),
        pytest.param(OPENSTACK, openstack(identityEndpoint=f"{CLOUD}/"), "1 2Gi 20Gi", id="openstack: an address with a slash"),
        pytest.param(KUBEVIRT, kubevirt({"cpus": "2", "memory": "4Gi"}), "2 4Gi 10Gi", id="kubevirt: cpus"),
        pytest.param(KUBEVIRT, kubevirt({"cpus": "500m", "memory": "512M"}), "500m 512M 10Gi", id="kubevirt: half a CPU"),
        pytest.param(
            KUBEVIRT, kubevirt({"vcpus": {"cores": 3}, "cpus": "1", "memory": "4Gi"}), "3 4Gi 10Gi", id="kubevirt: vcpus first"
        ),
        pytest.param(
            KUBEVIRT, kubevirt({"vcpus": {"cores": 0}, "cpus": "1", "memory": "4Gi"}), "1 4Gi 10Gi", id="kubevirt: 0 vcpus"
        ),
        pytest.param(
            KUBEVIRT,
            kubevirt({"cpus": "2", "memory": "4Gi", "secondaryDisks": [{"size": "20Gi"}, {"size": {"value": "5G"}}]}),
            "2 4Gi 37212254720",
            id="kubevirt: 30Gi and 5G of disks",
        ),
        pytest.param(
            KUBEVIRT,
            kubevirt({"cpus": "9", "memory": "9Gi"}, instancetype={"name": "u1.medium", "kind": "VirtualMachineInstancetype"}),
            "1 4Gi 10Gi",
            id="kubevirt: an instance type goes before the template",
        ),
        pytest.param(
            KUBEVIRT, kubevirt({"cpus": "2", "memory": "4Gi"}, instancetype=None), "2 4Gi 10Gi", id="kubevirt: null is no type"
        ),
        pytest.param(None, nutanix(), "2 2048M 40G", id="nutanix: one core for each socket"),
        pytest.param(None, nutanix(cpuCores=4), "8 2048M 40G", id="nutanix: sockets times cores"),
        pytest.param(None, vsphere(), "2 2048M 10G", id="vsphere"),
        pytest.param(None, value("fake", cpu="2", memory="4Gi", storage="10G"), "2 4Gi 10G", id="fake"),
        pytest.param(None, value("fake", cpu="0", memory="0", storage="0"), "0 0 0", id="fake: that costs nothing"),
        pytest.param(None, value("external", cpu="1", memory="1G", storage="1G"), "1 1G 1G", id="external"),
    ],
)
def test_what_a_machine_costs(place: Place | None, spec: Json, size: str) -> None:
    assert size_of(spec, filled(place) if place else Catalogue()) == amounts(size)


def test_every_provider_of_the_design_is_read() -> None:
    eleven = "alibaba aws azure digitalocean equinixmetal gce hetzner kubevirt nutanix openstack vsphere"
    assert set(READERS) == {*eleven.split(), "fake", "external"}


@pytest.mark.parametrize(
    ("spec", "lookup", "reason"),
    [
        pytest.param(
            aws(instanceType="u-24tb1.metal"),
            FlavourKey(AWS, "u-24tb1.metal"),
            "aws in eu-central-1 has no u-24tb1.metal, as of 2026-11-16T20:00:00Z",
            id="a flavour that the answer did not have",
        ),
        pytest.param(
            aws(region="eu-west-1"),
            FlavourKey(Place("aws", region="eu-west-1"), "t3.small"),
            "the size of t3.small of aws in eu-west-1 is not known yet",
            id="a region that nobody has asked",
        ),
        pytest.param(
            gce("e2-custom-micro-1024", zone=""),
            FlavourKey(Place("gce"), "e2-custom-micro-1024"),
            "the size of e2-custom-micro-1024 of gce is not known yet",
            id="a custom type whose name has no number of vCPUs",
        ),
        pytest.param(
            kubevirt({}, instancetype={"name": "large"}),
            FlavourKey(KUBEVIRT, "large"),
            "the size of large of kubevirt is not known yet",
            id="an instance type",
        ),
        pytest.param(
            openstack(),
            FlavourKey(OPENSTACK, "m1.small"),
            f"the size of m1.small of openstack at {CLOUD} in RegionOne is not known yet; rootDiskSizeGB sets the disk's size",
            id="a cloud of many",
        ),
        pytest.param(
            vsphere(diskSizeGB=None),
            FlavourKey(Place("vsphere"), "template ubuntu"),
            "the size of template ubuntu of vsphere is not known yet; write diskSizeGB",
            id="the disk of a template",
        ),
        pytest.param(
            nutanix(diskSize=None),
            FlavourKey(Place("nutanix"), "image ubuntu"),
            "the size of image ubuntu of nutanix is not known yet; write diskSize",
            id="the disk of an image",
        ),
        pytest.param(
            value("linode", type="g6-standard-1"), None, "Provider linode not supported", id="a provider that nobody reads"
        ),
        pytest.param(
            aws(instanceType={"value": "t3.small", **SECRET}),
            None,
            "spec.providerSpec.value.cloudProviderSpec.instanceType is kept in Secret kube-system/provider, which Ullage"
            " does not read: write the value itself",
            id="a secret goes before the value beside it",
        ),
        pytest.param(
            kubevirt({"cpus": "1", "memory": {"configMapKeyRef": {"namespace": "a", "name": "b", "key": "c"}}}),
            None,
            "spec.providerSpec.value.cloudProviderSpec.virtualMachine.template.memory is kept in ConfigMap a/b, which Ullage"
            " does not read: write the value itself",
            id="a size in a ConfigMap",
        ),
    ],
)
def test_what_nobody_knows_says_which_look_up_would_tell(spec: Json, lookup: FlavourKey | None, reason: str) -> None:
    assert size_of(spec, filled(AWS)) == Unknown(reason, lookup=lookup)


def test_the_look_up_that_is_named_makes_the_next_try_pass() -> None:
    spec = azure(osDiskSize=0, dataDiskSize=0, imageReference={"publisher": "Canonical", "offer": "jammy", "sku": "22_04-lts"})
    catalogue = filled(AZURE)
    first = size_of(spec, catalogue)
    assert isinstance(first, Unknown)
    assert first.lookup == FlavourKey(AZURE, "image Canonical/jammy/22_04-lts/")
    known = catalogue.refreshed(AZURE, {first.lookup.name: Flavour(storage=GI.of(30))}, source="images", at=ASKED)
    assert size_of(spec, known) == amounts("2 4Gi 30Gi")


@pytest.mark.parametrize(
    ("spec", "image"),
    [
        (azure(osDiskSize=0), "image ubuntu"),
        (azure(osDiskSize=None, imageID="/subscriptions/1/images/mine"), "image /subscriptions/1/images/mine"),
    ],
)
def test_an_azure_disk_of_no_size_is_as_large_as_the_image(spec: Json, image: str) -> None:
    found = size_of(spec, filled(AZURE))
    assert isinstance(found, Unknown)
    assert found.lookup == FlavourKey(AZURE, image)
    assert found.reason.endswith("; write osDiskSize")


def test_a_flavour_that_leaves_its_disk_to_the_image_is_of_unknown_size() -> None:
    assert size_of(openstack(flavor="v1.small"), filled(OPENSTACK)) == Unknown(
        f"v1.small of openstack at {CLOUD} in RegionOne does not say how much storage it has;"
        " rootDiskSizeGB sets the disk's size"
    )


def test_sizes_of_which_the_refresh_fails_go_on_to_count_and_the_failure_is_told_with_what_is_missing() -> None:
    stale = filled(AWS).failed(AWS, "UnauthorizedOperation", at=ASKED)
    assert size_of(aws(), stale) == amounts("2 2Gi 25G")
    assert size_of(aws(instanceType="new.large"), stale) == Unknown(
        "aws in eu-central-1 has no new.large, as of 2026-11-16T20:00:00Z; refreshing fails since 2026-11-16T20:00:00Z:"
        " UnauthorizedOperation",
        lookup=FlavourKey(AWS, "new.large"),
    )


class TestWhereALookUpGoes:
    def lookup(self, spec: Json, site: Site) -> Place:
        found = size_of(spec, Catalogue(), site=site)
        assert isinstance(found, Unknown)
        assert found.lookup is not None
        return found.lookup.place

    def test_the_cluster_s_credential_is_used_whatever_secret_the_machine_names(self) -> None:
        found = self.lookup(aws(accessKeyId=SECRET), Site(credential="kubermatic/credential-aws-abc"))
        assert found.credential == "kubermatic/credential-aws-abc"

    def test_without_one_the_machine_s_secret_is_named(self) -> None:
        assert self.lookup(aws(accessKeyId=SECRET), Site()).credential == "kube-system/provider"
        assert self.lookup(openstack(password=SECRET), Site()).credential == "kube-system/provider"
        assert self.lookup(openstack(applicationCredentialSecret=SECRET), Site()).credential == "kube-system/provider"

    def test_a_secret_that_is_written_into_a_machine_is_in_no_look_up(self) -> None:
        assert "hunter2" not in repr(self.lookup(value("hetzner", serverType="x", token="hunter2"), Site()))

    def test_the_site_s_region_and_address_hold_where_the_machine_names_none(self) -> None:
        assert self.lookup(aws(region=""), Site(region="eu-north-1")).region == "eu-north-1"
        spec = openstack(identityEndpoint=None, region=None)
        assert self.lookup(spec, Site(region="R", endpoint=f"{CLOUD}/")) == Place("openstack", region="R", endpoint=CLOUD)

    def test_what_is_known_with_one_credential_is_not_used_for_another(self) -> None:
        known = filled(Place("openstack", region="RegionOne", credential="a", endpoint=CLOUD))
        assert size_of(openstack(), known, site=Site(credential="a")) == amounts("1 2Gi 20Gi")
        assert isinstance(size_of(openstack(), known, site=Site(credential="b")), Unknown)


def test_amounts_are_written_in_the_unit_of_the_provider() -> None:
    found = size_of(aws(), filled(AWS))
    assert isinstance(found, Amounts)
    assert found.written() == {"cpu": "2", "memory": "2Gi", "storage": "25G"}
    assert found["storage"] == Quantity.of(25 * 10**9)

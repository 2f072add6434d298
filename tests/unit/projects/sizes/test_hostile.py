"""Machines that nobody means well with: each gets one line that names the field, shows the value and says what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit.projects.sizes.recorded import filled, value
from ullage.errors import BadInput
from ullage.projects.sizes.catalogue import Catalogue, Place
from ullage.projects.sizes.lookups import Site, Unknown
from ullage.projects.sizes.machine import size_of

VALUE = "spec.providerSpec.value"
SPEC = f"{VALUE}.cloudProviderSpec"
DISK = "a whole number from 1 to 1000000000 is allowed"
DISK_GI = "a whole number from 1 to 1073741824 is allowed"
SOME = "a whole number from 0 to 1073741824 is allowed"
TEMPLATE = f"{SPEC}.virtualMachine.template"
TWICE = "this field is given twice, in letters that differ in case alone"
WORD = "1 to 63 letters, digits, '-', '_' and '.' are allowed"


def aws(**spec: Any) -> dict[str, Any]:
    return value("aws", **{"region": "eu-central-1", "instanceType": "t3.small", "diskSize": 25, **spec})


def kubevirt(**template: Any) -> dict[str, Any]:
    return value(
        "kubevirt", virtualMachine={"template": {"cpus": "1", "memory": "1Gi", "primaryDisk": {"size": "1Gi"}, **template}}
    )


def deep(levels: int) -> object:
    made: object = {}
    for _ in range(levels):
        made = {"value": [made]}
    return made


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (None, f"{VALUE} null: an object is needed"),
        ([1, 2], f"{VALUE} (a list of 2): an object is needed"),
        ("x" * 10**6, f"{VALUE} {'x' * 40}…: an object is needed"),
        ({}, f"{VALUE}.cloudProvider (missing): a provider is needed"),
        ({"cloudProvider": ""}, f'{VALUE}.cloudProvider "": a provider is needed'),
        ({"cloudProvider": ["aws"]}, f"{VALUE}.cloudProvider (a list of 1): a text is needed"),
        ({"cloudProvider": "aws"}, f"{SPEC}.diskSize (missing): {DISK}"),
        ({"cloudProvider": "aws", "cloudProviderSpec": "x"}, f"{SPEC} x: an object is needed"),
        ({"cloudProvider": "a" * 257}, f"{VALUE}.cloudProvider {'a' * 40}…: at most 256 characters are allowed"),
        (dict.fromkeys(map(str, range(257))), f"{VALUE} of 257 fields: at most 256 are allowed"),
        (
            {"cloudProvider": "fake", "CloudProvider": "aws"},
            f"{VALUE}.CloudProvider aws: {TWICE}",
        ),
        (
            aws(InstanceType="x1e.32xlarge"),
            f"{SPEC}.InstanceType x1e.32xlarge: {TWICE}",
        ),
        (
            {"cloudProvider": "aws", "cloudProviderSpec": {"diskSize": 1, "di\u017fkSize": 9000}},
            f"{SPEC}.di\u017fkSize 9000: {TWICE}",
        ),
        (aws(diskSize=-25), f"{SPEC}.diskSize -25: {DISK}"),
        (aws(diskSize=0), f"{SPEC}.diskSize 0: {DISK}"),
        (aws(diskSize=2.5), f"{SPEC}.diskSize 2.5: {DISK}"),
        (aws(diskSize=math.nan), f"{SPEC}.diskSize nan: {DISK}"),
        (aws(diskSize=-math.inf), f"{SPEC}.diskSize -inf: {DISK}"),
        (aws(diskSize=1e300), f"{SPEC}.diskSize 1e+300: {DISK}"),
        (aws(diskSize=10**9 + 1), f"{SPEC}.diskSize 1000000001: {DISK}"),
        (aws(diskSize=10**5000), f"{SPEC}.diskSize (a number of 16610 bits): {DISK}"),
        (aws(diskSize=True), f"{SPEC}.diskSize true: {DISK}"),
        (aws(diskSize="25"), f"{SPEC}.diskSize 25: {DISK}"),
        (aws(diskSize={"value": 25}), f"{SPEC}.diskSize (an object of 1 fields): {DISK}"),
        (aws(instanceType=None), f"{SPEC}.instanceType (missing): an instance type is needed"),
        (aws(instanceType={}), f'{SPEC}.instanceType "": an instance type is needed'),
        (aws(instanceType={"value": 7}), f"{SPEC}.instanceType.value 7: a text is needed"),
        (aws(instanceType={"value": "a", "Value": "b"}), f"{SPEC}.instanceType.Value b: {TWICE}"),
        (aws(instanceType={"secretKeyRef": "x"}), f"{SPEC}.instanceType.secretKeyRef x: an object is needed"),
        (aws(instanceType=False), f"{SPEC}.instanceType false: a text is needed"),
        (aws(instanceType=10**5000), f"{SPEC}.instanceType (a number of 16610 bits): a text is needed"),
        (aws(instanceType=deep(5000)), f"{SPEC}.instanceType.value (a list of 1): a text is needed"),
        (aws(region="evil.example.com/"), f"{SPEC}.region evil.example.com/: {WORD}"),
        (aws(region="a\nb"), f"{SPEC}.region 'a\\nb': {WORD}"),
        (aws(region="\ud800"), f"{SPEC}.region '\\ud800': {WORD}"),
        (kubevirt(cpus="-1"), f"{TEMPLATE}.cpus -1: a quantity above 0, up to 100k, is allowed"),
        (kubevirt(cpus="NaN"), f"{TEMPLATE}.cpus NaN: a quantity above 0, up to 100k, is allowed"),
        (kubevirt(cpus="1e999"), f"{TEMPLATE}.cpus 1e999: a quantity above 0, up to 100k, is allowed"),
        (kubevirt(cpus=None), f"{TEMPLATE}.cpus (missing): a quantity above 0, up to 100k, is allowed"),
        (kubevirt(vcpus={"cores": -8}), f"{TEMPLATE}.vcpus.cores -8: a whole number from 0 to 100000 is allowed"),
        (kubevirt(memory="9Ei"), f"{TEMPLATE}.memory 9Ei: a quantity above 0, up to 1Ei, is allowed"),
        (kubevirt(memory="0"), f"{TEMPLATE}.memory 0: a quantity above 0, up to 1Ei, is allowed"),
        (
            kubevirt(secondaryDisks=[{"size": "1Gi"}] * 65),
            f"{TEMPLATE}.secondaryDisks of 65 items: at most 64 are allowed",
        ),
        (
            kubevirt(secondaryDisks=[{"size": "1Gi"}, {"size": "-9Gi"}]),
            f"{TEMPLATE}.secondaryDisks[1].size -9Gi: a quantity above 0, up to 1Ei, is allowed",
        ),
        (kubevirt(secondaryDisks="1Gi"), f"{TEMPLATE}.secondaryDisks 1Gi: a list is needed"),
        (kubevirt(secondaryDisks=[7]), f"{TEMPLATE}.secondaryDisks[0] 7: an object is needed"),
        (
            value("kubevirt", virtualMachine={"template": {"primaryDisk": {"size": "1Gi"}}, "instancetype": {}}),
            f"{SPEC}.virtualMachine.instancetype.name (missing): the name of an instance type is needed",
        ),
        (
            value("fake", cpu="1", memory="-1Gi", storage="1"),
            f"{SPEC}.memory -1Gi: a quantity of 0 or more, up to 1Ei, is allowed",
        ),
        (value("fake", cpu="1", memory="1"), f"{SPEC}.storage (missing): a quantity of 0 or more, up to 1Ei, is allowed"),
        (
            value("nutanix", cpus=2, cpuCores=-4, memoryMB=1),
            f"{SPEC}.cpuCores -4: a whole number from 1 to 100000 is allowed",
        ),
        (value("nutanix", cpus=2, cpuCores=0, memoryMB=1), f"{SPEC}.cpuCores 0: a whole number from 1 to 100000 is allowed"),
        (value("vsphere", cpus=0, memoryMB=1), f"{SPEC}.cpus 0: a whole number from 1 to 100000 is allowed"),
        (
            value("vsphere", cpus=1, memoryMB=10**13),
            f"{SPEC}.memoryMB 10000000000000: a whole number from 1 to 1000000000000 is allowed",
        ),
        (value("vsphere", cpus=1, memoryMB=1, diskSizeGB=0), f"{SPEC}.diskSizeGB 0: {DISK}"),
        (value("vsphere", cpus=1, memoryMB=1), f"{SPEC}.templateVMName (missing): a template is needed"),
        (value("azure", vmSize="a", osDiskSize=-1), f"{SPEC}.osDiskSize -1: {SOME}"),
        (value("azure", vmSize="a", dataDiskSize=-30), f"{SPEC}.dataDiskSize -30: {SOME}"),
        (value("alibaba", diskSize="-40"), f"{SPEC}.diskSize -40: {DISK_GI}"),
        (value("alibaba", diskSize="4e3"), f"{SPEC}.diskSize 4e3: {DISK_GI}"),
        (value("alibaba", diskSize="٤٠"), f"{SPEC}.diskSize ٤٠: {DISK_GI}"),
        (value("alibaba"), f"{SPEC}.diskSize (missing): {DISK_GI}"),
        (value("openstack", flavor="x", rootDiskSizeGB=0), f"{SPEC}.rootDiskSizeGB 0: {DISK_GI}"),
        (
            value("openstack", flavor="x", identityEndpoint="file:///etc/passwd"),
            f"{SPEC}.identityEndpoint file:///etc/passwd: an address that begins with https:// or http:// is needed",
        ),
        (
            value("openstack", flavor="x", identityEndpoint="https://a@b"),
            f"{SPEC}.identityEndpoint https://a@b: an address that begins with https:// or http:// is needed",
        ),
        (
            value("gce", machineType="custom-999999-1024"),
            f"{SPEC}.machineType custom-999999-1024: at most 100000 vCPUs are allowed",
        ),
        (value("gce", machineType="custom-1-1024", diskSize=-25), f"{SPEC}.diskSize -25: {SOME}"),
        (value("hetzner"), f"{SPEC}.serverType (missing): a server type is needed"),
        (value("digitalocean"), f"{SPEC}.size (missing): a size is needed"),
        (value("equinixmetal"), f"{SPEC}.instanceType (missing): a plan is needed"),
    ],
    ids=lambda given: ascii(given.removeprefix(VALUE)) if isinstance(given, str) and given.startswith(VALUE) else "",
)
def test_no_machine_can_be_made_of_that(spec: object, text: str) -> None:
    with pytest.raises(BadInput) as error:
        size_of(spec, filled(Place("aws", region="eu-central-1")))
    assert str(error.value) == text


def test_an_address_of_the_tenant_s_own_does_not_answer_for_sizes() -> None:
    site = Site(credential="c", endpoint="https://keystone.example.com/v3")
    with pytest.raises(BadInput) as error:
        size_of(value("openstack", flavor="x", identityEndpoint="https://proxy.example.net/v3"), Catalogue(), site=site)
    assert str(error.value) == (
        f"{SPEC}.identityEndpoint https://proxy.example.net/v3: only https://keystone.example.com/v3, where this cluster's"
        " machines are made, is allowed"
    )


@pytest.mark.parametrize(
    "name", ["custom-0-1024", "custom-4-0", "custom-04-1024", "custom-4-1024-EXT", "custom-٤-1024", "custom--4-1"]
)
def test_a_custom_type_that_is_not_quite_one_is_looked_up(name: str) -> None:
    assert isinstance(size_of(value("gce", zone="z", machineType=name), Catalogue()), Unknown)


def test_an_empty_reference_is_none() -> None:
    spec = aws(
        instanceType={"value": "t3.small", "secretKeyRef": {}, "configMapKeyRef": {"namespace": "", "name": "", "key": ""}}
    )
    assert not isinstance(size_of(spec, filled(Place("aws", region="eu-central-1"))), Unknown)


def test_half_a_reference_is_one() -> None:
    found = size_of(aws(instanceType={"value": "t3.small", "SecretKeyRef": {"Name": "x"}}), Catalogue())
    assert found == Unknown(f"{SPEC}.instanceType is kept in Secret null/x, which Ullage does not read: write the value itself")
